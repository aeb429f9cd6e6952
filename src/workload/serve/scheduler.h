#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/workload/serve/block_allocator.h"
#include "src/workload/serve/step_plan.h"

namespace teller::serve {

/// A request as the engine sees it. prompt.size() >= 1, max_tokens >= 1.
struct EngineRequest {
  std::string id;
  std::vector<int32_t> prompt;
  int max_tokens = 16;
  int32_t stop_token = -1;  ///< ends the request when sampled; -1: none
};

/// Why a request ended.
enum class FinishReason { kNone, kLength, kStop };

/// Continuous batching over a paged KV cache, as vLLM's first version 1 scheduler does it: every
/// step takes each running request's uncomputed tokens, then admits waiting ones in order of
/// arrival, within the limits below. Pure: no clock, no thread, no randomness.
class Scheduler {
 public:
  struct Options {
    int max_requests = 16;      ///< running at once
    int max_step_tokens = 512;  ///< of one step over all requests
    int block_tokens = 16;
    int blocks = 512;
    bool chunked_prefill =
        true;  ///< a prompt may be spread over steps; else it waits for room in one
    bool preemption =
        true;  ///< without a free block the newest request is put back and computed again later;
               ///< else a request waits until the blocks of its longest output are free
  };

  explicit Scheduler(const Options& options);

  /// Empty, or why a request of this size can never run here.
  std::string WhyNever(std::size_t prompt_tokens, int max_tokens) const;
  /// Queues a request that WhyNever has nothing against.
  void Add(EngineRequest request);
  /// Drops a request wherever it is; false where it is not known. Not between Schedule and Apply.
  bool Abort(std::string_view id);

  struct Decision {
    StepPlan plan;  ///< items in the order of `requests`
    std::vector<std::string> requests;
    std::vector<std::string> started;  ///< run for the first time, or again after preemption
    std::vector<std::string> preempted;
  };
  /// The next step; no items when nothing can run.
  Decision Schedule();

  struct Outcome {
    std::string id;
    int32_t token = 0;
    FinishReason finish = FinishReason::kNone;
  };
  /// Takes the tokens sampled for the decision's items with `samples`, in order; finished requests
  /// are gone after.
  std::vector<Outcome> Apply(const Decision& decision, std::span<const int32_t> tokens);

  bool HasWork() const { return !running_.empty() || !waiting_.empty(); }
  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  double cache_usage() const;

 private:
  struct State {
    EngineRequest request;
    std::vector<int32_t> tokens;  ///< prompt, then output
    std::vector<int32_t> blocks;
    std::size_t computed = 0;  ///< tokens whose keys and values are in the cache
  };
  using StatePointer = std::unique_ptr<State>;

  int StepTokens(const State& state, int budget) const;
  bool GrowOrPreempt(std::size_t index, std::size_t tokens, Decision& decision);
  void Preempt(Decision& decision);
  void ScheduleRunning(Decision& decision, int& budget);
  void AdmitWaiting(Decision& decision, int& budget);
  static void AddItem(Decision& decision, const State& state, int tokens);

  Options options_;
  BlockAllocator allocator_;
  uint32_t step_ = 0;
  std::vector<StatePointer> running_;  ///< oldest first
  std::deque<StatePointer> waiting_;
};

}  // namespace teller::serve
