#include "src/reconstruct/clock.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "src/core/random.h"

namespace teller::reconstruct {
namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

// A run of two ranks with an all-reduce every 5 ms, as Gloo does it: each rank ends when the
// other's data has come.
struct Exchange {
  int64_t offset_ns = 7 * kSecond;  // rank 1's clock minus rank 0's
  double drift = 0;                 // of rank 1's clock
  int64_t duration_ns = 20 * kSecond;
  int64_t straggle_ns = 0;  // rank 1 always starts so much later
  int64_t straggle_until_ns = INT64_MAX;
  int64_t delay_to_1_ns = 0;          // extra one-way delay from rank 0 to rank 1 ...
  int64_t delay_from_ns = INT64_MAX;  // ... from then on
};

class Ranks {
 public:
  explicit Ranks(const Exchange& exchange) {
    comm_ = strings.Intern("tp");
    name_ = strings.Intern("gloo:all_reduce");
    processes = {{.rank = RankId{0}, .node = "node0", .host = "h0"},
                 {.rank = RankId{1}, .node = "node1", .host = "h1"}};
    Random random(11);
    int32_t sequence = 0;
    for (int64_t now_ns = kSecond; now_ns < kSecond + exchange.duration_ns; now_ns += 5 * kMs) {
      AddCollective(exchange, random, now_ns, sequence++);
    }
  }

  Alignment Align(const AlignOptions& options = {}) const {
    return AlignClocks(processes, triples, probes, records, strings, options);
  }

  StringInterner strings;
  std::vector<trace::ProcessInfo> processes;
  std::vector<trace::ClockTriple> triples;
  std::vector<trace::ClockProbe> probes;
  std::vector<CollectiveRecord> records;

 private:
  void AddCollective(const Exchange& exchange, Random& random, int64_t now_ns, int32_t sequence) {
    const int64_t begin_0 = now_ns + random.UniformInt(0, 100 * kUs);
    const bool straggles = now_ns < exchange.straggle_until_ns;
    const int64_t begin_1 =
        now_ns + random.UniformInt(0, 100 * kUs) + (straggles ? exchange.straggle_ns : 0);
    const bool delayed = now_ns >= exchange.delay_from_ns;
    const int64_t to_1 =
        random.UniformInt(60 * kUs, 90 * kUs) + (delayed ? exchange.delay_to_1_ns : 0);
    const int64_t to_0 = random.UniformInt(60 * kUs, 90 * kUs);
    const int64_t end_0 = std::max(begin_0 + 60 * kUs, begin_1 + to_0),
                  end_1 = std::max(begin_1 + 60 * kUs, begin_0 + to_1);
    records.push_back({0, 0, comm_, name_, sequence, begin_0, end_0});
    const auto on_1 = [&](int64_t t) {
      return t + exchange.offset_ns + static_cast<int64_t>(exchange.drift * static_cast<double>(t));
    };
    records.push_back({1, 0, comm_, name_, sequence, on_1(begin_1), on_1(end_1)});
  }

  StringId comm_, name_;
};

int64_t ErrorAt(const Alignment& alignment, const Exchange& exchange, int64_t true_ns) {
  const int64_t on_1 = true_ns + exchange.offset_ns +
                       static_cast<int64_t>(exchange.drift * static_cast<double>(true_ns));
  return std::abs(alignment.processes[1].ToBase(on_1) - true_ns);
}

TEST(AlignClocksTest, CollectivesGiveTheOffset) {
  const Exchange exchange;
  const Alignment alignment = Ranks(exchange).Align();
  EXPECT_TRUE(alignment.aligned);
  EXPECT_EQ(alignment.processes[1].method, ClockMethod::kCollectives);
  EXPECT_LT(ErrorAt(alignment, exchange, 11 * kSecond), 20 * kUs);
  EXPECT_LT(alignment.residual_ns, 100 * kUs);
  EXPECT_GT(alignment.processes[1].error_ns, 0);
}

TEST(AlignClocksTest, AOneWayDelayInHalfOfTheRunIsNotAbsorbed) {
  const Exchange healthy;
  const Exchange delayed{.delay_to_1_ns = 2 * kMs, .delay_from_ns = 11 * kSecond};
  const Alignment a = Ranks(healthy).Align(), b = Ranks(delayed).Align();
  EXPECT_LT(std::abs(a.processes[1].ToBase(0) - b.processes[1].ToBase(0)), 50 * kUs);
  EXPECT_LT(ErrorAt(b, delayed, 20 * kSecond), 50 * kUs);
  // And in the first half: which half it is must not matter.
  Exchange early = delayed;
  early.offset_ns = -early.offset_ns;
  EXPECT_LT(ErrorAt(Ranks(early).Align(), early, 2 * kSecond), 50 * kUs);
}

TEST(AlignClocksTest, AStragglerDoesNotMoveTheClock) {
  const Exchange always{.straggle_ns = 3 * kMs};
  EXPECT_LT(ErrorAt(Ranks(always).Align(), always, 11 * kSecond), 100 * kUs);  // half a transfer
  const Exchange half{.straggle_ns = 3 * kMs, .straggle_until_ns = 11 * kSecond};
  EXPECT_LT(ErrorAt(Ranks(half).Align(), half, 3 * kSecond), 50 * kUs);
}

TEST(AlignClocksTest, DriftIsFittedWhereItIsLargerThanTheNoise) {
  const Exchange exchange{.drift = 40e-6};  // 40 us a second
  const Alignment alignment = Ranks(exchange).Align();
  EXPECT_NEAR(alignment.processes[1].drift, -40e-6, 4e-6);
  for (const int64_t second : {2, 11, 20})
    EXPECT_LT(ErrorAt(alignment, exchange, second * kSecond), 50 * kUs);
  EXPECT_EQ(Ranks(Exchange{}).Align().processes[1].drift, 0);
}

TEST(AlignClocksTest, ADelayOfTheWholeRunIsSaid) {
  const Exchange exchange{.delay_to_1_ns = 5 * kMs, .delay_from_ns = 0};
  const Alignment alignment = Ranks(exchange).Align();
  ASSERT_FALSE(alignment.notes.empty());
  EXPECT_NE(alignment.notes[0].find("cannot be told from an offset"), std::string::npos);
}

TEST(AlignClocksTest, OneNodeIsOneClock) {
  Ranks ranks{Exchange{.offset_ns = 0}};
  ranks.processes[1].node = "node0";
  ranks.processes[1].host = "h0";
  const Alignment alignment = ranks.Align();
  EXPECT_EQ(alignment.processes[1].method, ClockMethod::kBase);
  EXPECT_EQ(alignment.processes[1].offset_ns, 0);
}

// Two namespaces of one host: ticks are shared, 3 ticks a nanosecond, clocks 9 s apart.
TEST(AlignClocksTest, SharedTicksOfAHostComeFirst) {
  Ranks ranks{Exchange{.offset_ns = 9 * kSecond}};
  ranks.processes[1].host = "h0";
  for (int64_t t = 0; t <= 20; ++t) {
    ranks.triples.push_back({0, static_cast<uint64_t>(3 * t * kSecond), t * kSecond, 0});
    ranks.triples.push_back({1, static_cast<uint64_t>(3 * (t * kSecond + 500 * kMs)),
                             t * kSecond + 500 * kMs + 9 * kSecond, 0});
  }
  const Alignment alignment = ranks.Align();
  EXPECT_EQ(alignment.processes[1].method, ClockMethod::kSharedTicks);
  EXPECT_EQ(alignment.processes[1].offset_ns, -9 * kSecond);
  EXPECT_EQ(ranks.Align({.shared_ticks = false}).processes[1].method, ClockMethod::kCollectives);
}

TEST(AlignClocksTest, ProbesGiveTheOffsetToo) {
  Ranks ranks{Exchange{}};
  ranks.records.clear();
  Random random(3);
  for (int64_t t = kSecond; t < 21 * kSecond; t += 100 * kMs) {
    const int64_t there = random.UniformInt(30 * kUs, 60 * kUs),
                  back = random.UniformInt(30 * kUs, 60 * kUs);
    const int64_t received = t + there + 7 * kSecond, answered = received + 5 * kUs;
    ranks.probes.push_back(
        {"node0", "node1", t, received, answered, answered - 7 * kSecond + back});
  }
  const Alignment alignment = ranks.Align();
  EXPECT_EQ(alignment.processes[1].method, ClockMethod::kProbes);
  EXPECT_NEAR(static_cast<double>(alignment.processes[1].ToBase(17 * kSecond)), 10.0 * kSecond,
              15.0 * kUs);
}

TEST(AlignClocksTest, WhatNothingRelatesIsSaid) {
  Ranks ranks{Exchange{}};
  ranks.records.clear();
  const Alignment alignment = ranks.Align();
  EXPECT_FALSE(alignment.aligned);
  EXPECT_EQ(alignment.processes[1].method, ClockMethod::kUnrelated);
  EXPECT_EQ(alignment.notes.size(), 1u);
}

TEST(AlignClocksTest, AThirdNodeRelatesTwoOthers) {
  Ranks ranks{Exchange{}};
  // Rank 2 shares a communicator with rank 1 only; its clock is 2 s behind rank 1's.
  ranks.processes.push_back({.rank = RankId{2}, .node = "node2", .host = "h2"});
  const StringId pair = ranks.strings.Intern("pair"), name = ranks.strings.Find("gloo:all_reduce");
  for (int32_t i = 0; i < 100; ++i) {
    const int64_t t = (10 + i) * 100 * kMs;
    ranks.records.push_back({1, 0, pair, name, i, t, t + 50 * kUs});
    ranks.records.push_back({2, 0, pair, name, i, t - 2 * kSecond, t - 2 * kSecond + 50 * kUs});
  }
  const Alignment alignment = ranks.Align();
  EXPECT_TRUE(alignment.aligned);
  EXPECT_NEAR(static_cast<double>(alignment.processes[2].ToBase(0)), -5.0 * kSecond, 30.0 * kUs);
}

// The ends say 40 each time, the frame says 0 to 100: they agree far better than it is wide.
TEST(FitOffsetTest, GuessesThatAgreeAreKeptInsideTheFrame) {
  std::vector<OffsetSample> samples(10, {0, 40, 0, 100});
  EXPECT_EQ(FitOffset(samples)->offset_ns, 40);
  EXPECT_EQ(FitOffset(samples)->error_ns, 60);
  for (OffsetSample& sample : samples) sample.offset_ns = 140;
  EXPECT_EQ(FitOffset(samples)->offset_ns, 100);
}

TEST(FitOffsetTest, GuessesThatScatterGiveWayToTheFramesMiddle) {
  std::vector<OffsetSample> samples;
  for (int64_t i = 0; i < 10; ++i) samples.push_back({i, 30 * i, 0, 100});
  EXPECT_EQ(FitOffset(samples)->offset_ns, 50);
}

TEST(FitOffsetTest, TwoWrongPairsAreForgiven) {
  std::vector<OffsetSample> samples(10, {0, 40, 0, 100});
  samples[0].lower_ns = 90;
  samples[1].upper_ns = 10;
  EXPECT_EQ(FitOffset(samples)->offset_ns, 40);
}

TEST(FitOffsetTest, NeedsThreeSamples) {
  const std::vector<OffsetSample> two{{0, 5, 4, 6}, {1, 5, 4, 6}};
  EXPECT_FALSE(FitOffset(two));
}

}  // namespace
}  // namespace teller::reconstruct
