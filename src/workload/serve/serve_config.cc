#include "src/workload/serve/serve_config.h"

#include <array>
#include <string_view>

#include "src/core/hash.h"

namespace teller::serve {
namespace {

void RequireDivides(const config::Node& node, int whole, std::string_view what, int parts,
                    std::string_view by) {
  if (whole % parts == 0) return;
  node.Fail(std::string(what) + " " + std::to_string(whole) + " does not divide by " +
            std::string(by) + " " + std::to_string(parts));
}

void ReadModel(const config::Node& node, ModelOptions& model) {
  node.Read("name", model.name);
  model.tokenizer = node.Get("tokenizer").AsPath();
  node.Read("seed", model.seed, 0);
  node.Read("layers", model.layers, 1, 128);
  node.Read("hidden", model.hidden, 8, 16384);
  node.Read("heads", model.heads, 1, 256);
  node.Read("kv_heads", model.kv_heads, 1, 256);
  node.Read("intermediate", model.intermediate, 8, 65536);
  node.Read("max_length", model.max_length, 2, 1 << 20);
  RequireDivides(node, model.hidden, "hidden", model.heads, "heads");
  RequireDivides(node, model.heads, "heads", model.kv_heads, "kv_heads");
  RequireDivides(node, model.head_width(), "the width of a head,", 2, "two halves,");
}

void ReadEngine(const config::Node& node, Scheduler::Options& engine) {
  node.Read("max_requests", engine.max_requests, 1, 1024);
  node.Read("max_step_tokens", engine.max_step_tokens, 1, 1 << 20);
  node.Read("block_tokens", engine.block_tokens, 1, 1024);
  node.Read("blocks", engine.blocks, 1, 1 << 20);
  node.Read("chunked_prefill", engine.chunked_prefill);
  node.Read("preemption", engine.preemption);
  if (engine.max_step_tokens < engine.max_requests) {
    node.Fail("max_step_tokens is below max_requests: not every running request fits a step");
  }
}

void ReadParallel(const config::Node& node, const ModelOptions& model, ParallelOptions& parallel) {
  node.Read("tensor", parallel.tensor, 1, 64);
  node.Read("pipeline", parallel.pipeline, 1, 64);
  node.Read("peer_timeout_s", parallel.peer_timeout_s, 1, 86400);
  if (parallel.pipeline > model.layers) {
    node.Fail("pipeline " + std::to_string(parallel.pipeline) + " is above model.layers " +
              std::to_string(model.layers) + ": a stage would have no layer");
  }
  RequireDivides(node, model.heads, "model.heads", parallel.tensor, "tensor");
  RequireDivides(node, model.kv_heads, "model.kv_heads", parallel.tensor, "tensor");
  RequireDivides(node, model.intermediate, "model.intermediate", parallel.tensor, "tensor");
}

}  // namespace

ServeConfig ReadServeConfig(const config::Node& root) {
  static constexpr std::array<std::string_view, 1> kKinds = {"reference"};
  ServeConfig config;
  root.Get("schema_version").AsInt(1, 1);
  root.Get("kind").AsChoice(kKinds);
  ReadModel(root.Get("model"), config.model);
  if (const auto engine = root.Find("engine")) ReadEngine(*engine, config.engine);
  if (const auto parallel = root.Find("parallel")) {
    ReadParallel(*parallel, config.model, config.parallel);
  }
  root.Read("device_spin_us", config.device_spin_us, 0, 1000000);
  root.Read("http_threads", config.http_threads, 1, 4096);
  root.RejectUnknownKeys();
  config.hash = Hash64(root.Canonical());
  return config;
}

}  // namespace teller::serve
