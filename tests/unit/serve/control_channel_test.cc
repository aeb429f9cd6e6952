#include "src/workload/serve/control_channel.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>

#include "src/core/error.h"

namespace teller::serve {
namespace {

/// A TCP socket that listens on a port of the kernel's choice.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    listen(fd_, 1);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

int FreePort() { return Listener().port(); }

using ChannelPointer = std::unique_ptr<ControlChannel>;

std::future<ChannelPointer> Open(const ControlChannel::Options& options) {
  return std::async(std::launch::async, [options] {
    return std::make_unique<ControlChannel>(options, [] { return 4321; });
  });
}

std::string ErrorOf(std::future<ChannelPointer>& channel) {
  try {
    channel.get();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ControlChannelTest, RanksMeetInAnyOrderAndPlansArriveWhole) {
  const int port = FreePort();
  auto two = Open({.rank = 2, .world_size = 3, .port = port});
  auto one = Open({.rank = 1, .world_size = 3, .port = port});
  auto zero = Open({.rank = 0, .world_size = 3, .port = port});
  const ChannelPointer a = zero.get(), b = one.get(), c = two.get();
  EXPECT_EQ(b->store_port(), 4321);
  const std::vector<int32_t> plan(100000, 7);
  auto sending = std::async(std::launch::async, [&] { a->Send(plan); });
  EXPECT_EQ(b->Receive(5000), plan);
  EXPECT_EQ(c->Receive(5000), plan);
  sending.get();
  EXPECT_TRUE(b->Receive(1).empty());
}

TEST(ControlChannelTest, NamesThePeerThatIsGone) {
  const int port = FreePort();
  auto one = Open({.rank = 1, .world_size = 2, .port = port});
  auto zero = Open({.rank = 0, .world_size = 2, .port = port});
  const ChannelPointer a = zero.get();
  ChannelPointer b = one.get();
  std::promise<std::string> death;
  a->Watch([&](const std::string& who) { death.set_value(who); });
  b.reset();
  auto said = death.get_future();
  ASSERT_EQ(said.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_THAT(said.get(), testing::HasSubstr("rank 1 is gone"));
}

TEST(ControlChannelTest, LeavingIsNoDeath) {
  const int port = FreePort();
  auto one = Open({.rank = 1, .world_size = 2, .port = port});
  auto zero = Open({.rank = 0, .world_size = 2, .port = port});
  const ChannelPointer a = zero.get();
  ChannelPointer b = one.get();
  a->Watch([](const std::string& who) { ADD_FAILURE() << who; });
  a->Leave();
  b.reset();
  a->AwaitOthersLeaving(5000);
}

TEST(ControlChannelTest, ReceivingFromAnEndedRankZeroIsAnError) {
  const int port = FreePort();
  auto one = Open({.rank = 1, .world_size = 2, .port = port});
  auto zero = Open({.rank = 0, .world_size = 2, .port = port});
  zero.get().reset();
  const ChannelPointer b = one.get();
  EXPECT_THROW(b->Receive(5000), DeviceError);
}

TEST(ControlChannelTest, RefusesOtherConfigurationsAndWorlds) {
  const int port = FreePort();
  auto zero = Open({.rank = 0, .world_size = 2, .port = port, .config_hash = 1});
  auto one = Open({.rank = 1, .world_size = 2, .port = port, .config_hash = 2});
  EXPECT_THAT(ErrorOf(one), testing::HasSubstr("configuration differs"));
  EXPECT_THAT(ErrorOf(zero), testing::HasSubstr("rank 1 was turned away"));
  auto zero_again = Open({.rank = 0, .world_size = 2, .port = port});
  auto seven = Open({.rank = 7, .world_size = 9, .port = port});
  EXPECT_THAT(ErrorOf(seven), testing::HasSubstr("--world-size"));
  ErrorOf(zero_again);
}

TEST(ControlChannelTest, SaysWhichPortIsInUse) {
  const Listener taken;
  auto zero = Open({.rank = 0, .world_size = 2, .port = taken.port()});
  EXPECT_THAT(ErrorOf(zero), testing::AllOf(testing::HasSubstr(std::to_string(taken.port())),
                                            testing::HasSubstr("in use")));
}

TEST(ControlChannelTest, EndsWhenNobodyComes) {
  const int port = FreePort();
  auto zero = Open({.rank = 0, .world_size = 2, .port = port, .timeout_s = 1});
  EXPECT_THAT(ErrorOf(zero), testing::HasSubstr("none came within 1 s"));
  auto one = Open({.rank = 1, .world_size = 2, .port = port, .timeout_s = 1});
  EXPECT_THAT(ErrorOf(one), testing::HasSubstr("is rank 0 running?"));
}

TEST(ControlChannelTest, FindsTheLocalAddressOfARoute) {
  EXPECT_EQ(LocalAddressTowards("127.0.0.1"), "127.0.0.1");
  EXPECT_THROW(LocalAddressTowards("no such host!"), DeviceError);
}

}  // namespace
}  // namespace teller::serve
