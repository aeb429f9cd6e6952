#include "src/cluster/message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace teller::cluster {
namespace {

constexpr std::size_t kMaxFds = 4;

}  // namespace

int SendMessage(int socket, const nlohmann::json& body, std::span<const int> fds) {
  std::string text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxMessageBytes || fds.size() > kMaxFds) return EMSGSIZE;
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

std::optional<Message> ReceiveMessage(int socket) {
  std::string text(kMaxMessageBytes, '\0');
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  msghdr received{};
  received.msg_iov = &part;
  received.msg_iovlen = 1;
  received.msg_control = control;
  received.msg_controllen = sizeof control;
  ssize_t bytes;
  do {
    bytes = recvmsg(socket, &received, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes <= 0) return std::nullopt;
  Message message;
  for (cmsghdr* header = CMSG_FIRSTHDR(&received); header != nullptr;
       header = CMSG_NXTHDR(&received, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    message.fds.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(message.fds.data(), CMSG_DATA(header), message.fds.size() * sizeof(int));
  }
  text.resize(static_cast<std::size_t>(bytes));
  message.body = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return message;
}

}  // namespace teller::cluster
