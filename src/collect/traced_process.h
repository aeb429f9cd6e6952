#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "src/collect/pool_reader.h"
#include "src/collect/spool.h"

namespace teller::collect {

/// One traced process: its pool while it is there, and what is on disk meanwhile, in the spool
/// folder under the pool's name: NAME.records, NAME.clock (clock triples) and, once the pool has
/// been given back, NAME.process (its header and names). From these and the pools that are left a
/// successor goes on where a killed collector stopped.
class TracedProcess {
 public:
  /// Throws DataError where the pool cannot be used.
  TracedProcess(const std::filesystem::path& pool, const std::filesystem::path& spool_folder);

  /// Of a collection whose collector was killed. What cannot be used is left out, with one line
  /// each in `problems`.
  static std::vector<TracedProcess> Recover(const std::filesystem::path& run_folder,
                                            const std::filesystem::path& spool_folder,
                                            std::vector<std::string>& problems);

  const PoolReader& pool() const { return *pool_; }
  Spool& spool() { return *spool_; }
  const Spool& spool() const { return *spool_; }

  /// Moves what is new to disk. Answers the number of records.
  std::size_t Drain(PoolReader::Depth depth);
  /// Drains a last time and gives the pool's memory and the open files back. Answers the number of
  /// records.
  std::size_t Retire();

  /// Shells and helpers that none of our entrances reached and that wrote nothing; a run of scripts
  /// has thousands of them.
  bool IsSilent() const;

 private:
  TracedProcess(std::unique_ptr<PoolReader> pool, const std::filesystem::path& spool_folder);
  void GoOn();
  void KeepClock();

  std::filesystem::path base_;  ///< SPOOL/NAME
  std::unique_ptr<PoolReader> pool_;
  std::unique_ptr<Spool> spool_;
  std::size_t kept_triples_ = 0;
};

}  // namespace teller::collect
