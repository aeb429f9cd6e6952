#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/workload/serve/cpu_stream.h"
#include "src/workload/serve/process_group.h"
#include "src/workload/serve/serve_config.h"
#include "src/workload/serve/step_plan.h"

namespace teller::serve {

/// Keeps the BLAS and torch on this thread. The setting is a thread's own: every thread that
/// computes calls it.
void UseOneThread();

/// The groups that a rank is in; null: alone.
struct DecoderGroups {
  ProcessGroup* tensor = nullptr;    ///< the ranks that share its layers
  ProcessGroup* pipeline = nullptr;  ///< the ranks at its place in the stages, in order
};

/// One rank's shard of a Llama-style decoder with its paged KV cache, on one stream of the device.
/// Attention heads and the feed-forward width are split over the tensor group, two all-reduces a
/// layer; the logits are gathered, so that every rank samples the same token. Weights come from
/// `model.seed` and do not depend on the number of ranks.
class Decoder {
 public:
  /// All arguments outlive the decoder.
  Decoder(const ModelOptions& model, const Scheduler::Options& engine, CpuDevice& device,
          const DecoderGroups& groups);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // A step: the three in this order, on one thread. The first two return before the device is done.

  /// Queues the copies of the plan's tokens, positions and block tables to the device.
  void Prepare(const StepPlan& plan);
  /// Queues the layers and the logits.
  void Forward();
  /// Waits for the device and answers the next token of every item with `samples`, in order (zeros
  /// on ranks that neither sample nor are rank 0). Throws what failed on the device.
  std::vector<int32_t> Sample();

  /// Logits of the last step's sampled rows, after Sample: [row][vocabulary]; rows are empty on
  /// other than the last stage.
  std::vector<std::vector<float>> Logits() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::serve
