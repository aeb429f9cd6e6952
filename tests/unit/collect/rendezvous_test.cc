#include "src/collect/rendezvous.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "src/core/error.h"

namespace teller::collect {
namespace {

/// A port of the loopback that is free now.
std::string FreeAddress() {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  TELLER_CHECK(bind(file, reinterpret_cast<sockaddr*>(&address), size) == 0);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  close(file);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(RendezvousTest, SharesTheRunAndExchangesProbes) {
  const std::string address = FreeAddress();
  const auto first = Rendezvous::Meet({.address = address, .run_id = "shared", .node = "a"});
  const auto second = Rendezvous::Meet({.address = address, .node = "b"});
  const auto third = Rendezvous::Meet({.address = address, .node = "c"});
  EXPECT_EQ(second->run_id(), "shared");
  const auto probes = second->Finish();
  EXPECT_THAT(first->Finish(), testing::IsEmpty());
  ASSERT_GE(probes.size(), 4u);  // two bursts, of each the two best
  for (const trace::ClockProbe& probe : probes) {
    EXPECT_EQ(probe.from, "b");
    EXPECT_EQ(probe.to, "a");
    EXPECT_LE(probe.sent_ns, probe.received_ns);  // here both have the same clock
    EXPECT_LE(probe.received_ns, probe.answered_ns);
    EXPECT_LE(probe.answered_ns, probe.returned_ns);
  }
}

TEST(RendezvousTest, SaysInOneLineWhatIsWrong) {
  for (const char* address : {"nowhere", "host:", ":29700", "host:0", "host:99999", "host:x"}) {
    EXPECT_THAT(MessageOf([&] { Rendezvous::Meet({.address = address}); }),
                testing::HasSubstr("HOST:PORT"))
        << address;
  }
  EXPECT_THAT(MessageOf([&] {
                // An address for documentation, of no host: nobody answers there.
                Rendezvous::Meet({.address = "192.0.2.1:1", .node = "a", .timeout_ns = 0});
              }),
              testing::HasSubstr("no collector answers"));
  const std::string address = FreeAddress();
  const auto first = Rendezvous::Meet({.address = address, .run_id = "one", .node = "a"});
  EXPECT_THAT(MessageOf([&] { Rendezvous::Meet({.address = address, .node = "a"}); }),
              testing::HasSubstr("another host is called 'a' too"));
  EXPECT_THAT(
      MessageOf([&] { Rendezvous::Meet({.address = address, .run_id = "two", .node = "b"}); }),
      testing::HasSubstr("run 'one' meets there, not 'two'"));
}

TEST(RendezvousTest, ForeignersAreHungUpOn) {
  const std::string address = FreeAddress();
  const auto first = Rendezvous::Meet({.address = address, .node = "a"});
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in there = {};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  there.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(10))));
  ASSERT_EQ(connect(file, reinterpret_cast<sockaddr*>(&there), sizeof there), 0);
  const std::string request(200, 'x');
  ASSERT_GT(send(file, request.data(), request.size(), MSG_NOSIGNAL), 0);
  char answer;
  EXPECT_LE(recv(file, &answer, 1, 0), 0);
  close(file);
  EXPECT_GE(Rendezvous::Meet({.address = address, .node = "b"})->Finish().size(), 4u);
}

}  // namespace
}  // namespace teller::collect
