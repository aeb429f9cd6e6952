#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

namespace teller::cluster {

/// One message between the runner and a node's holder, with the file descriptors that came along.
struct Message {
  nlohmann::json body;
  std::vector<int> fds;  ///< owned by the receiver
};

/// Largest message: argv and environment of a process.
inline constexpr std::size_t kMaxMessageBytes = 128 * 1024;

/// Sends over a SOCK_SEQPACKET socket.  @return 0 or an errno value; EMSGSIZE above
/// kMaxMessageBytes
int SendMessage(int socket, const nlohmann::json& body, std::span<const int> fds = {});

/// Receives one message; nothing when the other side has gone.
std::optional<Message> ReceiveMessage(int socket);

}  // namespace teller::cluster
