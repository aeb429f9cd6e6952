#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "src/collect/pool_reader.h"

namespace teller::collect {

/// Raw records of one process on disk, for the time until they are compressed into the trace file.
/// What Take has returned from is in the file, so a killed collector loses nothing of it. The file
/// is made with the first record and open only while records come, since there may be thousands of
/// short processes.
class Spool final : public RecordSink {
 public:
  /// Goes on behind the records of a file that is there.
  explicit Spool(std::filesystem::path path);
  ~Spool() override;
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Never throws: where the disk is full, records are lost and counted, so that the target's pool
  /// is emptied anyway.
  void Take(std::span<const TellerRecord> records) override;
  /// Lets go of the file; Take and Read open it again.
  void Rest();

  uint64_t size() const { return written_; }  ///< records that can be read back
  uint64_t lost() const { return lost_; }
  /// Up to `count` records from `first` on. Throws DeviceError.
  std::vector<TellerRecord> Read(uint64_t first, std::size_t count);

 private:
  bool Open();

  std::filesystem::path path_;
  int file_ = -1;
  uint64_t written_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace teller::collect
