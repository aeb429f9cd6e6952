#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/workload/serve/control_channel.h"
#include "src/workload/serve/scheduler.h"

namespace teller::serve {

class Decoder;

/// What comes out of the engine for one request, token by token. One writer, one reader.
class TokenStream {
 public:
  struct Token {
    int32_t id = 0;
    FinishReason finish = FinishReason::kNone;
  };
  void Push(const Token& token);
  /// Waits for the next token; nothing when the engine ended before the request did.
  std::optional<Token> Next();
  void Close();

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  bool closed_ = false;
};

/// The engine of rank 0: takes requests from other threads, and step by step schedules, hands the
/// plan to the other ranks and runs it on its own decoder.
class Engine {
 public:
  Engine(const Scheduler::Options& options, Decoder& decoder, ControlChannel& channel);

  /// From any thread. Empty, or why the request can never run.
  std::string WhyNever(const EngineRequest& request) const;
  std::shared_ptr<TokenStream> Submit(EngineRequest request);
  void Abort(const std::string& id);

  /// Runs steps until a signal to stop has come, then tells the other ranks. Throws DeviceError.
  void Serve();
  /// Runs steps until nothing is left to do (no other thread submits).
  void RunUntilIdle();
  /// Tells the other ranks to stop.
  void Stop();

  /// Called after each step with its decision and outcomes; for --logits.
  using Observer =
      std::function<void(const Scheduler::Decision&, const std::vector<Scheduler::Outcome>&)>;
  void Observe(Observer observer) { observer_ = std::move(observer); }

 private:
  void TakeSubmissions();
  bool WaitForWork();
  void Step();
  void Deliver(const std::vector<Scheduler::Outcome>& outcomes);
  void CloseStreams();
  void LogStatistics();

  Scheduler scheduler_;
  const Scheduler::Options options_;
  Decoder& decoder_;
  ControlChannel& channel_;
  Observer observer_;
  std::unordered_map<std::string, std::shared_ptr<TokenStream>> streams_;  ///< engine thread only

  std::mutex mutex_;  ///< guards what other threads hand in
  std::condition_variable submitted_;
  std::vector<std::pair<EngineRequest, std::shared_ptr<TokenStream>>> submissions_;
  std::vector<std::string> aborts_;
  bool stopped_ = false;  ///< new requests end at once

  struct Statistics {
    int64_t since_ns = 0;
    int64_t prompt_tokens = 0;
    int64_t generated_tokens = 0;
  } statistics_;
};

/// The loop of the other ranks: runs rank 0's plans until it says stop. After SIGTERM it waits for
/// that stop for a moment, then leaves. Throws DeviceError.
void FollowRankZero(Decoder& decoder, ControlChannel& channel);

}  // namespace teller::serve
