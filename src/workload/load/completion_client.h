#pragma once

#include <cstdint>
#include <string>

#include "src/workload/load/arrivals.h"
#include "src/workload/load/request_result.h"

namespace teller::load {

/// Where requests go and how their prompts are made.
struct ClientOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string model;          ///< empty: the first that the server offers
  bool text_prompts = false;  ///< else token ids
  int vocabulary = 256;       ///< ids are below it
  uint64_t seed = 1;
  int timeout_s = 120;  ///< longest wait for the next byte
};

/// The server's first model. Throws DeviceError: unreachable, not such a server.
std::string FirstModel(const ClientOptions& options);

/// Sends one streamed completion and times what comes back. Never throws for what the server does.
RequestResult SendCompletion(const ClientOptions& options, const Arrival& arrival);

}  // namespace teller::load
