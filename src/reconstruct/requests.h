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

/// Gives every step that has no requests yet those that ran during it: from their 'run' to their
/// leaving.
void AssignRequests(std::vector<RequestMark> marks, std::span<StepForest> steps);

/// What an API server logs of a request.
struct RequestLine {
  int64_t time_ns = 0;  ///< base clock
  bool answered = false;
  std::string id;
  int64_t max_tokens = 0;  ///< 0: not said
};

/// What a log line says of a request: vLLM's 'Received request ID: ...max_tokens=N...', and
/// 'Generated response ID ...' where it logs answers too. The id is that of the API server: without
/// the number that a prompt of several has in the engine. Nothing: another line.
std::optional<RequestLine> ParseRequestLine(std::string_view line, int64_t time_ns);

/// Gives every step that has no requests yet those that an API server received before it. A request
/// joins in order of arrival at the first step that computes prompts and has room by its batch
/// size, takes part in every step then, and leaves when it is answered or has had as many steps as
/// it may have tokens. Answers the steps whose batch size is another than that of the requests they
/// got (an engine may stop a request early, or split a prompt over steps).
int64_t AssignLoggedRequests(std::vector<RequestLine> lines, std::span<StepForest> steps);

}  // namespace teller::reconstruct
