#include "src/workload/serve/cpu_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/workload/serve/activity.h"

namespace teller::serve {
namespace {

using testing::ElementsAre;

TEST(CpuStreamTest, RunsItemsInTheOrderOfTheCalls) {
  CpuDevice device({});
  const auto stream = device.CreateStream();
  std::vector<int> order;
  for (int i = 0; i < 10000; ++i)
    device.Launch(stream, "append_kernel", [&order, i] { order.push_back(i); });
  device.Synchronize(stream);
  ASSERT_EQ(order.size(), 10000u);
  for (int i = 0; i < 10000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CpuStreamTest, CopiesAndSetsMemory) {
  CpuDevice device({.spin_us = 50});
  const auto stream = device.CreateStream();
  std::vector<char> from = {'a', 'b', 'c', 'd'}, to(4);
  device.Copy(stream, "memcpy_htod", to.data(), from.data(), 4);
  device.Memset(stream, to.data() + 1, 'x', 2);
  device.Synchronize();
  EXPECT_THAT(to, ElementsAre('a', 'x', 'x', 'd'));
}

TEST(CpuStreamTest, AStreamWaitsForAnEventOfAnotherStream) {
  CpuDevice device({});
  const auto producer = device.CreateStream(), consumer = device.CreateStream();
  const auto ready = device.CreateEvent();
  std::atomic<bool> release{false};
  int value = 0, seen = 0;
  device.Launch(producer, "produce_kernel", [&] {
    while (!release) std::this_thread::yield();
    value = 42;
  });
  device.Record(producer, ready);
  device.Wait(consumer, ready);
  device.Launch(consumer, "consume_kernel", [&] { seen = value; });
  release = true;
  device.Synchronize(consumer);
  EXPECT_EQ(seen, 42);
}

TEST(CpuStreamTest, SynchronizingAnEventWaitsForWhatWasBeforeItOnly) {
  CpuDevice device({});
  const auto stream = device.CreateStream();
  const auto event = device.CreateEvent();
  std::atomic<bool> first{false}, release{false};
  device.Launch(stream, "first_kernel", [&] { first = true; });
  device.Record(stream, event);
  device.Launch(stream, "blocked_kernel", [&] {
    while (!release) std::this_thread::yield();
  });
  device.Synchronize(event);
  EXPECT_TRUE(first);
  release = true;
}

TEST(CpuStreamTest, AFailingItemStopsItsStreamAndSynchronizingRethrows) {
  CpuDevice device({});
  const auto stream = device.CreateStream();
  bool ran = false;
  device.Launch(stream, "failing_kernel", [] { throw std::runtime_error("peer is gone"); });
  device.Launch(stream, "later_kernel", [&] { ran = true; });
  EXPECT_THROW(device.Synchronize(stream), std::runtime_error);
  EXPECT_FALSE(ran);
}

/// What a subscriber saw, in order of the callbacks.
class RecordedActivity {
 public:
  RecordedActivity() { subscribed_ = ActivityApi().subscribe(&Callback, this) == 1; }
  ~RecordedActivity() { ActivityApi().subscribe(nullptr, nullptr); }
  bool subscribed() const { return subscribed_; }

  struct Seen {
    uint32_t site, kind;
    uint64_t correlation;
    std::string name, item;
    uint64_t user;
    std::thread::id thread;
    TellerActivityInfo info;
  };
  std::vector<Seen> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  static void Callback(void* context, const TellerActivityInfo* info) {
    auto* self = static_cast<RecordedActivity*>(context);
    const std::lock_guard lock(self->mutex_);
    self->seen_.push_back({info->site, info->kind, info->correlation, info->name ? info->name : "",
                           info->item_name ? info->item_name : "", *info->user,
                           std::this_thread::get_id(), *info});
    if (info->site == TELLER_ACTIVITY_API_ENTER || info->site == TELLER_ACTIVITY_ITEM_BEGIN) {
      *info->user = info->correlation + 1000;
    }
  }

  std::mutex mutex_;
  std::vector<Seen> seen_;
  bool subscribed_ = false;
};

/// Callbacks of `site` about `kind`.
std::vector<RecordedActivity::Seen> Only(const std::vector<RecordedActivity::Seen>& seen,
                                         uint32_t site, uint32_t kind) {
  std::vector<RecordedActivity::Seen> only;
  for (const auto& one : seen) {
    if (one.site == site && one.kind == kind) only.push_back(one);
  }
  return only;
}

TEST(CpuStreamActivityTest, ACallAndItsItemShareACorrelationId) {
  CpuDevice device({});
  const auto stream = device.CreateStream();
  RecordedActivity activity;
  ASSERT_TRUE(activity.subscribed());
  device.Launch(stream, "one_kernel", [] {});
  device.Launch(stream, "two_kernel", [] {});
  device.Synchronize(stream);
  const auto seen = activity.Take();
  const auto enter = Only(seen, TELLER_ACTIVITY_API_ENTER, TELLER_ACTIVITY_LAUNCH);
  const auto exit = Only(seen, TELLER_ACTIVITY_API_EXIT, TELLER_ACTIVITY_LAUNCH);
  const auto begin = Only(seen, TELLER_ACTIVITY_ITEM_BEGIN, TELLER_ACTIVITY_LAUNCH);
  const auto end = Only(seen, TELLER_ACTIVITY_ITEM_END, TELLER_ACTIVITY_LAUNCH);
  ASSERT_EQ(enter.size(), 2u);
  ASSERT_EQ(begin.size(), 2u);
  ASSERT_EQ(end.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(enter[i].correlation, begin[i].correlation);
    EXPECT_EQ(enter[i].name, "streamLaunch");
    EXPECT_EQ(enter[i].item, begin[i].item);
    // The word that the tool set comes back, in the call and in the item.
    EXPECT_EQ(exit[i].user, enter[i].correlation + 1000);
    EXPECT_EQ(end[i].user, begin[i].correlation + 1000);
    EXPECT_EQ(enter[i].thread, std::this_thread::get_id());
    EXPECT_NE(begin[i].thread, std::this_thread::get_id());
  }
  EXPECT_NE(enter[0].correlation, enter[1].correlation);
  EXPECT_EQ(begin[0].item, "one_kernel");
  EXPECT_EQ(Only(seen, TELLER_ACTIVITY_API_ENTER, TELLER_ACTIVITY_SYNC).size(), 1u);
  EXPECT_EQ(Only(seen, TELLER_ACTIVITY_ITEM_BEGIN, TELLER_ACTIVITY_SYNC).size(), 0u);
}

TEST(CpuStreamActivityTest, DescribesCollectivesAndCopies) {
  CpuDevice device({});
  const auto stream = device.CreateStream();
  RecordedActivity activity;
  char from = 1, to = 0;
  device.Enqueue(stream, {.name = "all_reduce", .comm = "tp", .bytes = 64, .sequence = 5}, [] {});
  device.Copy(stream, "memcpy_htod", &to, &from, 1);
  device.Synchronize(stream);
  const auto seen = activity.Take();
  const auto collective = Only(seen, TELLER_ACTIVITY_ITEM_BEGIN, TELLER_ACTIVITY_COLLECTIVE);
  ASSERT_EQ(collective.size(), 1u);
  EXPECT_EQ(collective[0].item, "all_reduce");
  EXPECT_STREQ(collective[0].info.comm, "tp");
  EXPECT_EQ(collective[0].info.bytes, 64);
  EXPECT_EQ(collective[0].info.sequence, 5);
  const auto copy = Only(seen, TELLER_ACTIVITY_ITEM_BEGIN, TELLER_ACTIVITY_COPY);
  ASSERT_EQ(copy.size(), 1u);
  EXPECT_EQ(copy[0].info.bytes, 1);
}

TEST(CpuStreamActivityTest, OneSubscriberAndNoneWhileSwitchedOff) {
  CpuDevice device({});
  const auto stream = device.CreateStream();
  RecordedActivity activity;
  const RecordedActivity second;
  EXPECT_FALSE(second.subscribed());
  ActivityApi().enable(0);
  device.Launch(stream, "unseen_kernel", [] {});
  device.Synchronize(stream);
  EXPECT_TRUE(activity.Take().empty());
  ActivityApi().enable(1);
}

}  // namespace
}  // namespace teller::serve
