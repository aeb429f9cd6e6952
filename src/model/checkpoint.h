#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/model/network.h"

namespace teller::model {

/// Where a training stands; kept in OUTPUT.checkpoint/ as checkpoint.json and the state file that
/// it names.
class Checkpoint {
 public:
  /// `identity` names configuration, seed and inputs.
  Checkpoint(std::filesystem::path output, std::string identity);

  /// Loads weights and moments into `network` and answers the losses so far, one an update; empty
  /// where there is no checkpoint. Throws DataError where it belongs to another training (unless
  /// `force`: then it is removed) or is damaged.
  std::vector<double> Restore(Network& network, bool force);
  void Save(const Network& network, const std::vector<double>& losses);
  void Remove();

  const std::filesystem::path& folder() const { return folder_; }
  /// Updates in the last checkpoint; 0: none.
  int64_t updates() const { return updates_; }

 private:
  std::filesystem::path folder_;
  std::string identity_;
  int64_t updates_ = 0;
};

}  // namespace teller::model
