#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "src/config/config.h"
#include "src/workload/serve/scheduler.h"

namespace teller::serve {

/// Sizes of the Llama-style decoder; its weights are random numbers of `seed`, the same for every
/// parallelism.
struct ModelOptions {
  std::string name = "teller-reference";
  std::filesystem::path tokenizer;  ///< SentencePiece model
  int64_t seed = 1;
  int layers = 4;
  int hidden = 256;
  int heads = 8;
  int kv_heads = 4;
  int intermediate = 704;
  int max_length = 1024;  ///< tokens of a request, prompt and output
  int vocabulary =
      0;  ///< of the tokenizer, rounded up to a multiple of `tensor`; set when it is loaded

  int head_width() const { return hidden / heads; }
};

struct ParallelOptions {
  int tensor = 1;           ///< ranks that share each layer
  int pipeline = 1;         ///< stages of consecutive layers; rank = stage * tensor + place in it
  int peer_timeout_s = 60;  ///< longest wait for a peer, at start and in a collective
};

/// configs/workload/reference.yaml, as teller-serve reads it.
struct ServeConfig {
  ModelOptions model;
  Scheduler::Options engine;
  ParallelOptions parallel;
  int device_spin_us = 0;  ///< how long streams and waiting callers spin before they sleep
  int http_threads = 64;   ///< connections served at once
  uint64_t hash = 0;       ///< equal on all ranks
};

/// Throws ConfigError with file, line and column: unknown key, value out of range, sizes that do
/// not divide.
ServeConfig ReadServeConfig(const config::Node& root);

}  // namespace teller::serve
