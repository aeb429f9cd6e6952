#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/reconstruct/step_forest.h"

namespace teller::reconstruct {

enum class RequestEvent : uint8_t { kRun = 0, kLeave = 1 };

/// A request began to run or left the engine.
struct RequestMark {
  int64_t time_ns = 0;  ///< base clock
  RequestEvent event{};
  std::string id;
};

/// What a mark named 'request EVENT ID' says: 'run'; 'finish', 'abort' and 'preempt' leave.
/// Nothing: another mark.
std::optional<RequestMark> ParseRequestMark(std::string_view name, int64_t time_ns);

/// The same of a log line: vLLM's 'Received request ID: ...' and, once it is answered, 'Generated
/// response ID ...' (--enable-log-requests --enable-log-outputs). The id is that of the API server:
/// without the number that a prompt of several has in the engine.
std::optional<RequestMark> ParseRequestLine(std::string_view line, int64_t time_ns);

/// Gives every step that has no requests yet those that ran during it: from their 'run' to their
/// leaving.
void AssignRequests(std::vector<RequestMark> marks, std::span<StepForest> steps);

}  // namespace teller::reconstruct
