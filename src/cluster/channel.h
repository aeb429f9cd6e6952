#pragma once

#include <sys/types.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "src/cluster/message.h"

namespace teller::cluster {

/// The runner's end of the socket to a node's holder. Closing it ends the holder and all it
/// started. Thread-safe.
class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}
  ~Channel() { Close(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// What the holder says first, within `timeout_ns`; nothing when it died or is late.
  std::optional<nlohmann::json> Greeting(int64_t timeout_ns);
  /// Asks and waits for the answer; nothing when the holder has gone.
  std::optional<Message> Ask(const nlohmann::json& request, std::span<const int> fds = {});
  void Close();

  pid_t holder() const { return holder_; }
  void set_holder(pid_t holder) { holder_ = holder; }

 private:
  std::mutex mutex_;  // one question at a time
  int socket_;
  pid_t holder_ = 0;
};

}  // namespace teller::cluster
