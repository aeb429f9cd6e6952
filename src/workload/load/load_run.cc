#include "src/workload/load/load_run.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "src/core/clock.h"
#include "src/core/interrupt.h"

namespace teller::load {
namespace {

constexpr int64_t kLateNs = 5'000'000;
constexpr int64_t kSleepNs = 50'000'000;  // between looks at signals

/// What the connections share.
class Load {
 public:
  Load(const RunOptions& options, const ClientOptions& client, Arrivals& arrivals,
       const std::function<void(const RequestResult&)>& on_result)
      : options_(options),
        client_(client),
        arrivals_(arrivals),
        on_result_(on_result),
        begin_ns_(MonotonicNs()) {}

  /// One connection: a request after the other.
  void Work() {
    while (const auto arrival = Take()) {
      if (!SleepUntil(begin_ns_ + arrival->offset_ns)) return;
      Keep(SendCompletion(client_, *arrival));
    }
  }

  RunResult Result() { return std::move(result_); }

 private:
  std::optional<Arrival> Take() {
    const std::lock_guard lock(mutex_);
    const auto limit_ns = static_cast<int64_t>(options_.duration_s * 1e9);
    if (Interrupted() || result_.gave_up) return std::nullopt;
    if (limit_ns > 0 && MonotonicNs() - begin_ns_ >= limit_ns) return std::nullopt;
    const auto arrival = arrivals_.Next();
    if (!arrival || (limit_ns > 0 && arrival->offset_ns >= limit_ns)) return std::nullopt;
    if (arrivals_.open_loop() && MonotonicNs() - begin_ns_ - arrival->offset_ns > kLateNs)
      ++result_.late;
    return arrival;
  }

  static bool SleepUntil(int64_t time_ns) {
    for (int64_t left = time_ns - MonotonicNs(); left > 0; left = time_ns - MonotonicNs()) {
      if (Interrupted()) return false;
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left, kSleepNs)));
    }
    return true;
  }

  void Keep(RequestResult result) {
    const std::lock_guard lock(mutex_);
    on_result_(result);
    const bool failed = !result.ok() && !result.interrupted();
    failures_in_a_row_ = failed ? failures_in_a_row_ + 1 : 0;
    if (failures_in_a_row_ >= options_.give_up_after) result_.gave_up = true;
    result_.results.push_back(std::move(result));
  }

  const RunOptions& options_;
  const ClientOptions& client_;
  Arrivals& arrivals_;
  const std::function<void(const RequestResult&)>& on_result_;
  const int64_t begin_ns_;
  std::mutex mutex_;  ///< guards all below, and arrivals_
  RunResult result_;
  int failures_in_a_row_ = 0;
};

}  // namespace

RunResult RunLoad(const RunOptions& options, const ClientOptions& client, Arrivals& arrivals,
                  const std::function<void(const RequestResult&)>& on_result) {
  Load load(options, client, arrivals, on_result);
  std::vector<std::thread> connections;
  for (int i = 0; i < options.connections; ++i) connections.emplace_back([&load] { load.Work(); });
  for (std::thread& connection : connections) connection.join();
  return load.Result();
}

}  // namespace teller::load
