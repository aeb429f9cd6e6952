#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/experiment/stage.h"

namespace teller::experiment {

/// What stage.json says of a finished stage.
struct StageRecord {
  std::filesystem::path folder;
  std::string
      content;  ///< hash over the names and bytes of all its files: what later stages depend on
  double took_s = 0;
  int64_t peak_memory_bytes = 0;
};

/// Finished stages of one experiment: ROOT/KIND/KEY/ with the stage's files and stage.json
/// (docs/schema/stage.md). A folder is written beside and renamed when whole, and never changed.
class StageStore {
 public:
  /// Makes the folder and takes its lock, held until the object and every process forked meanwhile
  /// have ended. Waits up to half a minute for the processes that a killed run left, which undo
  /// what it did. Removes half-written folders of dead runs. Throws Error where another run holds
  /// the lock, ConfigError where the folder cannot be written.
  explicit StageStore(std::filesystem::path root);
  /// For looking only: takes no lock, makes and removes nothing.
  static StageStore ForReading(std::filesystem::path root);
  ~StageStore();
  StageStore(StageStore&& other) noexcept;

  /// The address of a stage whose inputs have this content.
  static std::string KeyOf(const Stage& stage, const std::vector<std::string>& input_contents);
  /// Nothing where the stage was not finished, or where a file of it is missing or of another size.
  std::optional<StageRecord> Find(const Stage& stage, const std::string& key) const;
  /// Runs the stage in this process and keeps its result.
  void Make(const Stage& stage, StageContext context) const;
  /// Mean time that finished stages of this kind took; nothing where none did.
  std::optional<double> MeanTime(const std::string& kind) const;
  const std::filesystem::path& root() const { return root_; }

 private:
  StageStore(std::filesystem::path root, int lock_fd) : root_(std::move(root)), lock_fd_(lock_fd) {}
  std::filesystem::path root_;
  int lock_fd_ = -1;
};

}  // namespace teller::experiment
