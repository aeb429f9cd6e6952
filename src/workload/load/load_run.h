#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "src/workload/load/arrivals.h"
#include "src/workload/load/completion_client.h"

namespace teller::load {

/// How a load runs.
struct RunOptions {
  int connections = 1;     ///< closed loop: always so many requests; open arrivals: at most
  double duration_s = 0;   ///< no request begins after it; 0: until the arrivals end
  int give_up_after = 10;  ///< failures in a row that end the load
};

struct RunResult {
  std::vector<RequestResult> results;  ///< in order of their end
  int64_t late = 0;                    ///< open arrivals that began over 5 ms after their time
  bool gave_up = false;
};

/// Drives requests until duration, arrivals or a signal end it; requests in flight are finished.
/// `on_result` is called once a request, from one thread at a time.
RunResult RunLoad(const RunOptions& options, const ClientOptions& client, Arrivals& arrivals,
                  const std::function<void(const RequestResult&)>& on_result);

}  // namespace teller::load
