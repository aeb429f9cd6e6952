// The writing end (agent) and the reading end (collect) of a pool in one process. CTest runs each
// case in a process of its own, since a process attaches once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <thread>

#include "src/abi/control_file.h"
#include "src/agent/background.h"
#include "src/agent/delays.h"
#include "src/agent/recorder.h"
#include "src/collect/pool_reader.h"
#include "tests/support/temporary_folder.h"

namespace teller::agent {
namespace {

class CountingSink : public collect::RecordSink {
 public:
  void Take(std::span<const TellerRecord> records) override {
    for (const TellerRecord& record : records) all.push_back(record);
  }
  std::vector<TellerRecord> all;
};

std::filesystem::path OnlyPool(const std::filesystem::path& folder) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".pool") found = entry.path();
  }
  return found;
}

class AgentPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(g_state, nullptr) << "run one case a process (--gtest_filter), as CTest does";
    ASSERT_EQ(teller_control_create(folder_.path().c_str(), &control_), 0);
    teller_control_set_level(control_, TELLER_LEVEL_FULL);
    setenv("TELLER_RUN_DIR", folder_.path().c_str(), 1);
    setenv("TELLER_NODE", "node7", 1);
    setenv("RANK", "3", 1);
    ASSERT_TRUE(AttachProcess());
    reader_ = std::make_unique<collect::PoolReader>(OnlyPool(folder_.path()));
  }
  ~AgentPoolTest() override { teller_control_unmap(control_); }

  static void Write(const char* name, uint64_t begin) {
    Thread* thread = CurrentThread();
    WriteRecord(thread, {begin, begin + 1, NameId(thread, name), TELLER_LAYER_ENGINE,
                         TELLER_KIND_RANGE, TELLER_SOURCE_NVTX, thread->tid});
  }

  testing_support::TemporaryFolder folder_;
  TellerControl* control_ = nullptr;
  std::unique_ptr<collect::PoolReader> reader_;
  CountingSink sink_;
};

TEST_F(AgentPoolTest, IdentifiesTheProcess) {
  const trace::ProcessInfo info = reader_->Info();
  EXPECT_EQ(info.pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(info.rank, RankId{3});
  EXPECT_EQ(info.node, "node7");
  EXPECT_NE(info.command, "");
  EXPECT_FALSE(reader_->ProcessIsGone());
}

TEST_F(AgentPoolTest, GivesEveryRecordBackInOrderOfItsThread) {
  for (uint64_t i = 0; i < 5000; ++i) Write(i % 2 == 0 ? "even" : "odd", i);
  EXPECT_EQ(reader_->Drain(collect::PoolReader::Depth::kFullSegments, sink_), 4092u);  // 4 x 1023
  EXPECT_EQ(reader_->Drain(collect::PoolReader::Depth::kEverything, sink_), 908u);
  ASSERT_EQ(sink_.all.size(), 5000u);
  for (uint64_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(sink_.all[i].begin, i);
    ASSERT_EQ(reader_->names().at(sink_.all[i].name), i % 2 == 0 ? "even" : "odd");
  }
}

TEST_F(AgentPoolTest, DropsAndCountsWhenNobodyDrains) {
  constexpr uint64_t kPool = uint64_t{TELLER_POOL_SEGMENTS} * TELLER_SEGMENT_RECORDS;
  for (uint64_t i = 0; i < kPool + 1000; ++i) Write("x", i);
  EXPECT_EQ(reader_->dropped(TELLER_DROP_NO_SEGMENT), 1000u);
  EXPECT_EQ(reader_->Drain(collect::PoolReader::Depth::kEverything, sink_), kPool);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // past the pause between searches
  Write("after", 1);
  EXPECT_EQ(reader_->Drain(collect::PoolReader::Depth::kEverything, sink_), 1u);
}

TEST_F(AgentPoolTest, HandsSegmentsOfEndedThreadsOn) {
  for (int i = 0; i < 1000; ++i)
    std::thread([i] { Write("short", static_cast<uint64_t>(i)); }).join();
  EXPECT_EQ(reader_->Drain(collect::PoolReader::Depth::kEverything, sink_), 1000u);
  EXPECT_EQ(reader_->dropped(TELLER_DROP_NO_SEGMENT), 0u);
  EXPECT_LT(g_state->pool->segment_count, TELLER_POOL_SEGMENTS);
}

TEST_F(AgentPoolTest, TakesRecordsOfManyThreadsAtOnce) {
  constexpr int kThreads = 8;
  constexpr uint64_t kEach = 20000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      const std::string name = "thread " + std::to_string(t);
      for (uint64_t i = 0; i < kEach; ++i) Write(name.c_str(), i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reader_->Drain(collect::PoolReader::Depth::kEverything, sink_), kThreads * kEach);
  std::map<uint32_t, std::pair<uint64_t, std::set<uint32_t>>> by_track;
  for (const TellerRecord& record : sink_.all) {
    auto& [count, names] = by_track[record.track];
    ++count;
    names.insert(record.name);
  }
  EXPECT_EQ(by_track.size(), static_cast<std::size_t>(kThreads));
  for (const auto& [track, seen] : by_track) {
    EXPECT_EQ(seen.first, kEach);
    EXPECT_EQ(seen.second.size(), 1u);
  }
}

TEST_F(AgentPoolTest, SaysSoWhenTheNameTableIsFull) {
  std::string name(4000, 'n');
  const std::size_t fit = TELLER_NAME_TABLE_BYTES / 4004;
  for (std::size_t i = 0; i < fit + 10; ++i) {
    name.replace(0, 8, std::to_string(10000000 + i));
    Write(name.c_str(), i);
  }
  EXPECT_GT(reader_->dropped(TELLER_DROP_NAME_TABLE_FULL), 0u);
  reader_->Drain(collect::PoolReader::Depth::kEverything, sink_);
  EXPECT_EQ(sink_.all.size(), fit + 10);
  EXPECT_EQ(reader_->names().at(sink_.all.back().name), "(name table full)");
}

// Names are cached by the address of their text.
TEST_F(AgentPoolTest, TellsTextsApartThatStandAtOneAddress) {
  const std::vector<std::string> texts = {std::string(39, 'a'),
                                          std::string(40, 'a'),
                                          std::string(41, 'a'),
                                          std::string(41, 'b'),
                                          std::string(40, 'a') + "c",
                                          "a",
                                          "",
                                          std::string(100, 'a')};
  char at[128];
  for (int round = 0; round < 2; ++round) {
    for (const std::string& text : texts) {
      std::strcpy(at, text.c_str());
      Write(at, 1);
      Write(at, 2);
    }
  }
  reader_->Drain(collect::PoolReader::Depth::kEverything, sink_);
  ASSERT_EQ(sink_.all.size(), 4 * texts.size());
  for (std::size_t i = 0; i < sink_.all.size(); ++i)
    EXPECT_EQ(reader_->names().at(sink_.all[i].name), texts[i / 2 % texts.size()]);
}

TEST_F(AgentPoolTest, CutsOverlongNames) {
  Write(std::string(10000, 'a').c_str(), 1);
  reader_->Drain(collect::PoolReader::Depth::kEverything, sink_);
  EXPECT_EQ(reader_->names().at(sink_.all.at(0).name), std::string(kMaxNameBytes, 'a'));
}

TEST_F(AgentPoolTest, WipesItsStateInAForkedChild) {
  Write("parent", 1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // as the agent's own handler does
    t_thread = nullptr;
    const bool attached = g_state->pool == nullptr && AttachProcess();
    if (attached) Write("child", 2);
    _exit(attached ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  Write("parent", 3);
  reader_->Drain(collect::PoolReader::Depth::kEverything, sink_);
  ASSERT_EQ(sink_.all.size(), 2u);
  EXPECT_EQ(sink_.all[1].begin, 3u);
  std::size_t pools = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    pools += entry.path().extension() == ".pool" ? 1 : 0;
  }
  EXPECT_EQ(pools, 2u);
}

TEST_F(AgentPoolTest, LogsEveryDelayWithItsBeginAndEnd) {
  TellerPerturbation perturbation{};
  perturbation.plan_id = 11;
  perturbation.target = TELLER_TARGET_OPERATOR;
  perturbation.delay_ns = 50'000;
  perturbation.probability = 1;
  perturbation.every_n = 2;
  perturbation.rank_mask = 1u << 3;
  std::strcpy(perturbation.pattern, "aten::*");
  teller_control_set_perturb(control_, 1);
  teller_control_set_perturbation(control_, 0, &perturbation);
  ApplyControl(*control_);
  ASSERT_NE(Switches() & DelayAtStartBit(TELLER_TARGET_OPERATOR), 0u);
  for (int i = 0; i < 4; ++i) DelayAtStart({TELLER_TARGET_OPERATOR, "aten::mm", 99});
  DelayAtStart({TELLER_TARGET_OPERATOR, "other", 0});

  TellerHitRing* ring = g_state->hits.load();
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(ring->rank, 3);
  TellerHit hit;
  for (int i = 0; i < 2; ++i) {  // every second call
    ASSERT_EQ(teller_hits_take(ring, &hit), 1);
    EXPECT_EQ(hit.plan_id, 11u);
    EXPECT_EQ(hit.correlation, 99u);
    EXPECT_EQ(hit.inside, 1);
    EXPECT_GE(hit.end_ns - hit.begin_ns, 50'000);
  }
  EXPECT_EQ(teller_hits_take(ring, &hit), 0);
}

TEST_F(AgentPoolTest, LeavesOtherRanksAndNodesAlone) {
  TellerPerturbation perturbation{};
  perturbation.probability = 1;
  perturbation.rank_mask = 1u << 2;
  std::strcpy(perturbation.pattern, "*");
  teller_control_set_perturb(control_, 1);
  teller_control_set_perturbation(control_, 0, &perturbation);
  ApplyControl(*control_);
  EXPECT_EQ(Switches() & DelayAtStartBit(TELLER_TARGET_OPERATOR), 0u);
  perturbation.rank_mask = UINT64_MAX;
  std::strcpy(perturbation.node, "node8");
  teller_control_set_perturbation(control_, 0, &perturbation);
  ApplyControl(*control_);
  EXPECT_EQ(Switches() & DelayAtStartBit(TELLER_TARGET_OPERATOR), 0u);
  std::strcpy(perturbation.node, "node7");
  teller_control_set_perturbation(control_, 0, &perturbation);
  ApplyControl(*control_);
  EXPECT_NE(Switches() & DelayAtStartBit(TELLER_TARGET_OPERATOR), 0u);
}

TEST_F(AgentPoolTest, CountsAPlaceboWithoutDelay) {
  TellerPerturbation perturbation{};
  perturbation.probability = 1;
  perturbation.rank_mask = UINT64_MAX;
  std::strcpy(perturbation.pattern, "*");
  teller_control_set_perturb(control_, 1);
  teller_control_set_perturbation(control_, 0, &perturbation);
  ApplyControl(*control_);
  for (int i = 0; i < 3; ++i) DelayAtStart({TELLER_TARGET_OPERATOR, "x", 0});
  EXPECT_EQ(g_state->hits.load()->head, 3u);
}

TEST_F(AgentPoolTest, CountsHitsThatFindNoRoom) {
  TellerPerturbation perturbation{};
  perturbation.probability = 1;
  perturbation.rank_mask = UINT64_MAX;
  std::strcpy(perturbation.pattern, "*");
  teller_control_set_perturb(control_, 1);
  teller_control_set_perturbation(control_, 0, &perturbation);
  ApplyControl(*control_);
  for (uint32_t i = 0; i < TELLER_HIT_SLOTS + 5; ++i)
    DelayAtStart({TELLER_TARGET_OPERATOR, "x", 0});
  EXPECT_EQ(g_state->hits.load()->lost, 5u);
}

}  // namespace
}  // namespace teller::agent
