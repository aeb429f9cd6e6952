#include "src/workload/serve/scheduler.h"

#include <algorithm>

#include "src/core/error.h"

namespace teller::serve {

Scheduler::Scheduler(const Options& options)
    : options_(options), allocator_(options.blocks, options.block_tokens) {}

std::string Scheduler::WhyNever(std::size_t prompt_tokens, int max_tokens) const {
  const int64_t total = static_cast<int64_t>(prompt_tokens) + max_tokens;
  const int64_t capacity = int64_t{options_.blocks} * options_.block_tokens;
  if (total > capacity) {
    return std::to_string(total) + " tokens of prompt and output do not fit a KV cache of " +
           std::to_string(capacity);
  }
  if (!options_.chunked_prefill && total > options_.max_step_tokens) {
    return std::to_string(total) + " tokens do not fit a step of " +
           std::to_string(options_.max_step_tokens) + " without chunked prefill";
  }
  return {};
}

void Scheduler::Add(EngineRequest request) {
  TELLER_CHECK(!request.prompt.empty() && request.max_tokens >= 1);
  auto state = std::make_unique<State>();
  state->tokens = request.prompt;
  state->request = std::move(request);
  waiting_.push_back(std::move(state));
}

bool Scheduler::Abort(std::string_view id) {
  const auto is_it = [id](const StatePointer& state) { return state->request.id == id; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    allocator_.Release((*it)->blocks);
    running_.erase(it);
    return true;
  }
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), is_it);
  if (it == waiting_.end()) return false;
  waiting_.erase(it);
  return true;
}

Scheduler::Decision Scheduler::Schedule() {
  Decision decision;
  decision.plan.step = step_;
  int budget = options_.max_step_tokens;
  ScheduleRunning(decision, budget);
  if (decision.preempted.empty()) AdmitWaiting(decision, budget);
  if (!decision.plan.items.empty()) ++step_;
  return decision;
}

/// How many tokens of a request go into a step with `budget` tokens left; 0: none.
int Scheduler::StepTokens(const State& state, int budget) const {
  const int needed = static_cast<int>(state.tokens.size() - state.computed);
  if (needed > budget && !options_.chunked_prefill) return 0;
  return std::min(needed, budget);
}

void Scheduler::ScheduleRunning(Decision& decision, int& budget) {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const int tokens = StepTokens(*running_[i], budget);
    if (tokens == 0) continue;
    if (!GrowOrPreempt(i, running_[i]->computed + static_cast<std::size_t>(tokens), decision))
      break;
    AddItem(decision, *running_[i], tokens);
    budget -= tokens;
  }
}

/// Blocks for running_[index], taken from newer requests where none are free; false: it was put
/// back itself.
bool Scheduler::GrowOrPreempt(std::size_t index, std::size_t tokens, Decision& decision) {
  while (!allocator_.Grow(running_[index]->blocks, static_cast<int64_t>(tokens))) {
    const bool itself = index + 1 == running_.size();
    Preempt(decision);
    if (itself) return false;
  }
  return true;
}

void Scheduler::Preempt(Decision& decision) {
  StatePointer state = std::move(running_.back());
  running_.pop_back();
  allocator_.Release(state->blocks);
  state->computed = 0;
  decision.preempted.push_back(state->request.id);
  waiting_.push_front(std::move(state));
}

void Scheduler::AdmitWaiting(Decision& decision, int& budget) {
  while (!waiting_.empty() && static_cast<int>(running_.size()) < options_.max_requests) {
    State& state = *waiting_.front();
    const int tokens = StepTokens(state, budget);
    const auto longest =
        state.request.prompt.size() + static_cast<std::size_t>(state.request.max_tokens);
    const auto blocks_for = options_.preemption ? static_cast<std::size_t>(tokens) : longest;
    if (tokens == 0 || !allocator_.Grow(state.blocks, static_cast<int64_t>(blocks_for))) return;
    AddItem(decision, state, tokens);
    decision.started.push_back(state.request.id);
    budget -= tokens;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Scheduler::AddItem(Decision& decision, const State& state, int tokens) {
  const auto first = state.tokens.begin() + static_cast<std::ptrdiff_t>(state.computed);
  const std::size_t end = state.computed + static_cast<std::size_t>(tokens);
  PlanItem item;
  item.start = static_cast<int32_t>(state.computed);
  item.context =
      tokens > 1 || state.computed < state.request.prompt.size() || end < state.tokens.size();
  item.samples = end == state.tokens.size();
  item.tokens.assign(first, first + tokens);
  item.blocks = state.blocks;
  decision.plan.items.push_back(std::move(item));
  decision.requests.push_back(state.request.id);
}

std::vector<Scheduler::Outcome> Scheduler::Apply(const Decision& decision,
                                                 std::span<const int32_t> tokens) {
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < decision.requests.size(); ++i) {
    const auto it = std::find_if(running_.begin(), running_.end(), [&](const StatePointer& state) {
      return state->request.id == decision.requests[i];
    });
    TELLER_CHECK(it != running_.end());
    State& state = **it;
    state.computed += decision.plan.items[i].tokens.size();
    if (!decision.plan.items[i].samples) continue;
    TELLER_CHECK(outcomes.size() < tokens.size());
    const int32_t token = tokens[outcomes.size()];
    state.tokens.push_back(token);
    const auto made = static_cast<int>(state.tokens.size() - state.request.prompt.size());
    FinishReason finish = FinishReason::kNone;
    if (token == state.request.stop_token) {
      finish = FinishReason::kStop;
    } else if (made == state.request.max_tokens) {
      finish = FinishReason::kLength;
    }
    outcomes.push_back({state.request.id, token, finish});
    if (finish != FinishReason::kNone) {
      allocator_.Release(state.blocks);
      running_.erase(it);
    }
  }
  return outcomes;
}

double Scheduler::cache_usage() const {
  return 1.0 - static_cast<double>(allocator_.free_blocks()) / allocator_.blocks();
}

}  // namespace teller::serve
