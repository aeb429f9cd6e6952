#include "src/workload/serve/engine.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/workload/serve/annotation.h"
#include "src/workload/serve/decoder.h"
#include "src/workload/serve/service_log.h"

namespace teller::serve {
namespace {

constexpr int kWaitMs = 200;                       // between looks at signals
constexpr int kStopGraceMs = 2000;                 // for the other side to stop by itself
constexpr int64_t kStatisticsNs = 10'000'000'000;  // as vLLM: every ten seconds

/// The part of a step that every rank does alike.
std::vector<int32_t> RunOnDevice(const StepPlan& plan, Decoder& decoder) {
  {
    const AnnotatedRange range("prepare_inputs");
    decoder.Prepare(plan);
  }
  {
    const AnnotatedRange range("forward");
    decoder.Forward();
  }
  const AnnotatedRange range("sample");
  return decoder.Sample();
}

}  // namespace

void TokenStream::Push(const Token& token) {
  const std::lock_guard lock(mutex_);
  tokens_.push_back(token);
  ready_.notify_one();
}

std::optional<TokenStream::Token> TokenStream::Next() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return next_ < tokens_.size() || closed_; });
  if (next_ == tokens_.size()) return std::nullopt;
  return tokens_[next_++];
}

void TokenStream::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  ready_.notify_one();
}

Engine::Engine(const Scheduler::Options& options, Decoder& decoder, ControlChannel& channel)
    : scheduler_(options), options_(options), decoder_(decoder), channel_(channel) {}

std::string Engine::WhyNever(const EngineRequest& request) const {
  return scheduler_.WhyNever(request.prompt.size(), request.max_tokens);
}

std::shared_ptr<TokenStream> Engine::Submit(EngineRequest request) {
  auto stream = std::make_shared<TokenStream>();
  const std::lock_guard lock(mutex_);
  if (stopped_) stream->Close();
  submissions_.emplace_back(std::move(request), stream);
  submitted_.notify_one();
  return stream;
}

void Engine::Abort(const std::string& id) {
  const std::lock_guard lock(mutex_);
  aborts_.push_back(id);
  submitted_.notify_one();
}

void Engine::TakeSubmissions() {
  std::unique_lock lock(mutex_);
  auto submissions = std::exchange(submissions_, {});
  auto aborts = std::exchange(aborts_, {});
  lock.unlock();
  for (auto& [request, stream] : submissions) {
    MarkRequest("add", request.id);
    streams_[request.id] = std::move(stream);
    scheduler_.Add(std::move(request));
  }
  for (const std::string& id : aborts) {
    if (!scheduler_.Abort(id)) continue;
    MarkRequest("abort", id);
    streams_.erase(id);
  }
}

/// False when a signal to stop has come.
bool Engine::WaitForWork() {
  while (!Interrupted()) {
    TakeSubmissions();
    LogStatistics();
    if (scheduler_.HasWork()) return true;
    std::unique_lock lock(mutex_);
    submitted_.wait_for(lock, std::chrono::milliseconds(kWaitMs),
                        [this] { return !submissions_.empty() || !aborts_.empty(); });
  }
  return false;
}

void Engine::Serve() {
  statistics_.since_ns = MonotonicNs();
  while (WaitForWork()) Step();
  CloseStreams();
  Stop();
}

void Engine::RunUntilIdle() {
  for (TakeSubmissions(); scheduler_.HasWork(); TakeSubmissions()) Step();
}

void Engine::Stop() {
  channel_.Leave();
  channel_.Send(StepPlan{.stop = true}.Serialize());
  channel_.AwaitOthersLeaving(kStopGraceMs);
}

/// One engine iteration. What runs is decided before the range opens, because the range's name says
/// it.
void Engine::Step() {
  const Scheduler::Decision decision = scheduler_.Schedule();
  TELLER_CHECK(!decision.plan.items.empty());
  const AnnotatedRange step(decision.plan.Annotation());
  {
    const AnnotatedRange range("schedule");
    for (const std::string& id : decision.preempted) MarkRequest("preempt", id);
    for (const std::string& id : decision.started) MarkRequest("run", id);
    channel_.Send(decision.plan.Serialize());
  }
  const std::vector<int32_t> tokens = RunOnDevice(decision.plan, decoder_);
  const auto outcomes = scheduler_.Apply(decision, tokens);
  for (const PlanItem& item : decision.plan.items) {
    if (item.context) statistics_.prompt_tokens += static_cast<int64_t>(item.tokens.size());
  }
  statistics_.generated_tokens += static_cast<int64_t>(outcomes.size());
  if (observer_) observer_(decision, outcomes);
  Deliver(outcomes);
}

void Engine::Deliver(const std::vector<Scheduler::Outcome>& outcomes) {
  for (const Scheduler::Outcome& outcome : outcomes) {
    const auto it = streams_.find(outcome.id);
    it->second->Push({outcome.token, outcome.finish});
    if (outcome.finish == FinishReason::kNone) continue;
    MarkRequest("finish", outcome.id);
    streams_.erase(it);
  }
}

void Engine::CloseStreams() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  TakeSubmissions();
  for (auto& [id, stream] : streams_) stream->Close();
  streams_.clear();
}

/// vLLM's line on throughput and queues, while there is or was something to report.
void Engine::LogStatistics() {
  const int64_t now = MonotonicNs();
  const double seconds = static_cast<double>(now - statistics_.since_ns) * 1e-9;
  if (now - statistics_.since_ns < kStatisticsNs) return;
  if (statistics_.prompt_tokens + statistics_.generated_tokens > 0) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: "
                  "%.1f tokens/s, "
                  "Running: %zu reqs, Waiting: %zu reqs, GPU KV cache usage: %.1f%%, Prefix cache "
                  "hit rate: 0.0%%",
                  static_cast<double>(statistics_.prompt_tokens) / seconds,
                  static_cast<double>(statistics_.generated_tokens) / seconds, scheduler_.running(),
                  scheduler_.waiting(), 100 * scheduler_.cache_usage());
    SERVICE_INFO(text);
  }
  statistics_ = {.since_ns = now};
}

void FollowRankZero(Decoder& decoder, ControlChannel& channel) {
  int64_t leave_at_ns = INT64_MAX;
  while (MonotonicNs() < leave_at_ns) {
    const std::vector<int32_t> words = channel.Receive(kWaitMs);
    if (Interrupted() && leave_at_ns == INT64_MAX) {
      leave_at_ns = MonotonicNs() + int64_t{kStopGraceMs} * 1000000;
    }
    if (words.empty()) continue;
    const StepPlan plan = StepPlan::Parse(words);
    if (plan.stop) break;
    const AnnotatedRange step(plan.Annotation());
    RunOnDevice(plan, decoder);
  }
  channel.Leave();
}

}  // namespace teller::serve
