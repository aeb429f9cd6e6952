#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>

#include "fault_injection/schedule.h"
#include "src/cluster/rank_process.h"
#include "src/core/ids.h"

namespace teller::fault_injection {

struct KindDescription;

/// One thing the injector measurably did, on the clock of `node`.
struct TruthAction {
  uint32_t plan_id = 0;
  std::string node;
  RankId rank = kNoRank;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::string what;   ///< 'delay', 'stop'
  std::string where;  ///< 'inside', 'before', 'interval'
};

/// Appends truth.jsonl (docs/schema/truth.md). Thread-safe. A thread of its own writes: a disk that
/// others keep busy never holds up a fault. A line that cannot be written (no space) is remembered
/// and thrown by CheckWritten, so that whoever runs the plan can undo everything first.
class TruthWriter {
 public:
  /// Throws ConfigError where the file exists, DeviceError where it cannot be made.
  explicit TruthWriter(const std::filesystem::path& path);
  ~TruthWriter();
  TruthWriter(const TruthWriter&) = delete;
  TruthWriter& operator=(const TruthWriter&) = delete;

  void Header(const std::string& run_id, uint64_t seed,
              std::span<const cluster::RankProcess> ranks);
  void Calibration(const std::string& node, int64_t begin_ns, int64_t end_ns);
  void PlanLine(const PlannedFault& fault, const KindDescription& kind, const std::string& node);
  void Stretch(bool begin, const PlannedFault& fault, const std::string& node, int64_t time_ns);
  void Action(const TruthAction& action);
  void Measured(uint32_t plan_id, const std::string& node, const std::string& name,
                const std::string& unit, double value);
  void Lost(std::optional<uint32_t> plan_id, const std::string& node, int64_t count,
            const std::string& reason);
  /// Returns when everything is written, or could not be.
  void Footer();

  int64_t actions() const;  ///< of all plans
  int64_t actions(uint32_t plan_id) const;
  /// Throws DeviceError when a line was not written.
  void CheckWritten();

 private:
  void Append(const nlohmann::ordered_json& line);
  void WriteWaiting();

  const std::filesystem::path path_;
  int fd_ = -1;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string waiting_;  // whole lines
  bool writing_ = false, closing_ = false;
  int64_t actions_ = 0;
  std::unordered_map<uint32_t, int64_t> plan_actions_;
  int error_ = 0;
  std::thread writer_;
};

}  // namespace teller::fault_injection
