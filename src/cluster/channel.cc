#include "src/cluster/channel.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace teller::cluster {

std::optional<nlohmann::json> Channel::Greeting(int64_t timeout_ns) {
  const std::lock_guard lock(mutex_);
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, static_cast<int>(timeout_ns / 1'000'000)) <= 0) return std::nullopt;
  auto message = ReceiveMessage(socket_);
  if (!message) return std::nullopt;
  return message->body;
}

std::optional<Message> Channel::Ask(const nlohmann::json& request, std::span<const int> fds) {
  const std::lock_guard lock(mutex_);
  if (socket_ < 0) return std::nullopt;
  if (const int error = SendMessage(socket_, request, fds); error != 0) {
    if (error != EMSGSIZE) return std::nullopt;
    return Message{.body = {{"error", error}}, .fds = {}};
  }
  return ReceiveMessage(socket_);
}

void Channel::Close() {
  const std::lock_guard lock(mutex_);
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

}  // namespace teller::cluster
