// Whatever dies or runs out: a readable file or one clear line, never a hung or slowed target,
// every loss counted. TELLER_KILLS=200 makes the kill test long (docs/overhead.md).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>

#include "src/abi/pool.h"
#include "src/collect/recovery.h"
#include "src/collect/session.h"
#include "src/core/atomic_file.h"
#include "tests/integration/collect/collected.h"
#include "tests/support/temporary_folder.h"

namespace teller::testing_support {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kTeller = std::string(TELLER_BINARY_DIR) + "/bin/teller";
const std::string kProgram = std::string(TELLER_BINARY_DIR) + "/tests/nvtx_program";

/// A pool that this test writes as an agent does: one thread, records that say their number.
class NumberedPool {
 public:
  explicit NumberedPool(const std::filesystem::path& run_dir) {
    const std::filesystem::path path = run_dir / "1-1.pool";
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    TELLER_CHECK(ftruncate(file, static_cast<off_t>(TELLER_POOL_FILE_BYTES)) == 0);
    memory_ = static_cast<char*>(
        mmap(nullptr, TELLER_POOL_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    TellerPoolHeader& header = *reinterpret_cast<TellerPoolHeader*>(memory_);
    header.abi_version = TELLER_ABI_VERSION;
    header.segment_count = kSegments;
    header.sources_attached = 1u << TELLER_SOURCE_NVTX;
    header.rank = 0;
    const uint32_t length = 4;
    std::memcpy(memory_ + TELLER_POOL_NAMES_OFFSET, &length, sizeof length);
    std::memcpy(memory_ + TELLER_POOL_NAMES_OFFSET + sizeof length, "name", length);
    header.name_bytes = sizeof length + length;
    header.clock[0] = {.ticks = 1, .monotonic_ns = 1, .realtime_ns = 1, .uncertainty_ticks = 1};
    header.clock_head = 1;
    __atomic_store_n(&header.magic, TELLER_POOL_MAGIC, __ATOMIC_RELEASE);
  }
  ~NumberedPool() { munmap(memory_, TELLER_POOL_FILE_BYTES); }

  /// False where the pool is full: then nothing is written.
  bool Write() {
    if (segment_ == nullptr && !Take()) return false;
    TellerSegmentHeader& header = segment_->header;
    const uint32_t count = header.count;
    TellerRecord record{};
    record.begin = written_ + 1;
    record.end = written_ * 3 + 2;
    record.bytes = static_cast<int64_t>(written_) * 7;
    record.comm = UINT32_MAX;
    record.sequence = record.peer = -1;
    record.layer = TELLER_LAYER_ENGINE;
    segment_->records[count] = record;
    __atomic_store_n(&header.count, count + 1, __ATOMIC_RELEASE);
    ++written_;
    if (count + 1 == TELLER_SEGMENT_RECORDS) {
      __atomic_store_n(&header.state, TELLER_SEGMENT_FULL, __ATOMIC_RELEASE);
      segment_ = nullptr;
    }
    return true;
  }
  uint64_t written() const { return written_; }

 private:
  static constexpr uint32_t kSegments = 8;

  bool Take() {
    auto* segments = reinterpret_cast<TellerSegment*>(memory_ + TELLER_POOL_SEGMENTS_OFFSET);
    for (uint32_t i = 0; i < kSegments; ++i) {
      if (__atomic_load_n(&segments[i].header.state, __ATOMIC_ACQUIRE) != TELLER_SEGMENT_FREE)
        continue;
      segment_ = &segments[i];
      __atomic_store_n(&segment_->header.state, TELLER_SEGMENT_WRITING, __ATOMIC_RELEASE);
      return true;
    }
    return false;
  }

  char* memory_;
  TellerSegment* segment_ = nullptr;
  uint64_t written_ = 0;
};

/// A collector in a process of its own, until it is killed.
pid_t StartCollector(const std::filesystem::path& folder) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const auto session = collect::Session::Start({.output = folder / "t.h5",
                                                .run_dir = folder / "run",
                                                .recoverable = true,
                                                .run_id = "killed",
                                                .agent_library = "/proc/self/exe"});
  for (;;) pause();
}

/// Every record exactly once, with every value.
void ExpectNumbers(const Collected& collected, uint64_t written) {
  ASSERT_EQ(collected.events.size(), 1u);
  const trace::EventTable& events = collected.events[0];
  ASSERT_EQ(events.size(), written);
  std::vector<bool> seen(written, false);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto number = static_cast<uint64_t>(events.begin_ns[i]) - 1;
    ASSERT_LT(number, written);
    ASSERT_FALSE(seen[number]) << number << " twice";
    seen[number] = true;
    ASSERT_EQ(events.end_ns[i], static_cast<int64_t>(number * 3 + 2));
    ASSERT_EQ(events.bytes[i], static_cast<int64_t>(number) * 7);
  }
}

// Killed at any point of its work, the collector has lost nothing: a successor finds each record in
// the spool or in the pool, and none in both.
TEST(DurabilityTest, KillsOfTheCollectorLoseAndDoubleNothing) {
  const char* asked = std::getenv("TELLER_KILLS");
  const int kills = asked == nullptr ? 12 : std::atoi(asked);
  std::mt19937 random(1);
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    SCOPED_TRACE(kill_number);
    const TemporaryFolder folder;
    setenv("TELLER_STATE_DIR", (folder / "state").c_str(), 1);
    std::filesystem::create_directory(folder / "run");
    const pid_t collector = StartCollector(folder.path());
    while (!std::filesystem::exists(folder / "run" / "control")) std::this_thread::sleep_for(1ms);
    NumberedPool pool(folder / "run");
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 150'000);
    while (std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 500 && pool.Write(); ++i) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    }
    kill(collector, SIGKILL);
    waitpid(collector, nullptr, 0);
    while (pool.written() < 10) pool.Write();
    EXPECT_THAT(collect::RecoverCollection(folder / ".t.h5.teller-killed.spool", true),
                HasSubstr("would be written to"));
    collect::RecoverCollection(folder / ".t.h5.teller-killed.spool", false);
    EXPECT_FALSE(std::filesystem::exists(folder / ".t.h5.teller-killed.spool"));
    const Collected collected(folder / "t.h5");
    EXPECT_TRUE(collected.reader.complete());
    EXPECT_EQ(collected.Stat("recovered"), 1);
    ExpectNumbers(collected, pool.written());
  }
  unsetenv("TELLER_STATE_DIR");
}

class DurabilityCommandTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TELLER_STATE_DIR", (folder_ / "state").c_str(), 1); }
  void TearDown() override {
    RunShell(kTeller + " restore");
    unsetenv("TELLER_STATE_DIR");
  }
  std::string File() const { return (folder_ / "t.h5").string(); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  /// Runs `script` with this much room in $ROOM, in a mount namespace of its own.
  static Ran RunWithLittleRoom(const std::string& size, const std::string& script) {
    return RunShell("unshare -m sh -c 'set -e; mount -t tmpfs -o size=" + size +
                    " none /mnt; export ROOM=/mnt; " + script + "'");
  }
  static bool CanMount() { return RunWithLittleRoom("64k", "true").exit_code == 0; }

  TemporaryFolder folder_;
};

/// The last whole line that the 'forever' program printed: pairs done.
int PairsDone(const std::string& output) {
  const std::size_t end = output.rfind('\n');
  const std::size_t begin = output.rfind('\n', end - 1);
  return std::atoi(output.c_str() + (begin == std::string::npos ? 0 : begin + 1));
}

TEST_F(DurabilityCommandTest, RestoreWritesTheTraceWhenTargetAndCollectorWereKilled) {
  const Ran ran = RunShell(
      CollectLine(File(), "--run-id killed-both", kProgram + " forever") + " > " + Path("o") +
      " & pid=$!; until [ $(wc -l < " + Path("o") + ") -gt 30 ]; do sleep 0.02; done; " +
      "target=$(pgrep -P $pid -x nvtx_program); relay=$(pgrep -P $pid -x teller-relay); "
      // Lines are still on their way when both die.
      "kill -STOP $relay; sleep 0.05; kill -9 $target $pid; sleep 0.05; kill -CONT $relay; "
      "wait $pid; status=$?; while [ -e /proc/$relay/exe ]; do sleep 0.01; done; exit $status");
  EXPECT_EQ(ran.exit_code, 137) << ran.err;
  const int pairs = PairsDone(ReadFile(Path("o")));
  EXPECT_FALSE(std::filesystem::exists(File()));
  const Ran again = RunShell(CollectLine(Path("other.h5"), "", "true"));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr("the collector of run killed-both was killed"));
  const Ran restored = RunShell(kTeller + " restore");
  EXPECT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_THAT(restored.out, HasSubstr("written to " + File()));
  EXPECT_EQ(RunShell(kTeller + " info --check " + File()).exit_code, 0);
  const Collected collected(File());
  int records = 0;
  for (const auto& [name, count] : collected.CountByName()) records += count;
  EXPECT_GE(records, pairs * 3 / 2);
  EXPECT_LT(records, pairs * 3 / 2 + 3000);  // the target may not have printed its last ones
  EXPECT_EQ(static_cast<int>(collected.reader.ReadLogs().size()), pairs / 100);
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/teller-killed-both"));
  EXPECT_FALSE(std::filesystem::exists(Path(".t.h5.teller-killed-both.spool")));
}

// It writes 10 MB after its collector is gone and ends by itself; what was recorded is there.
TEST_F(DurabilityCommandTest, TheTargetGoesOnWhenOnlyTheCollectorIsKilled) {
  const std::string target = "sh -c '" + kProgram + " pairs 3000; echo ready; sleep 0.4; head -c " +
                             "10000000 /dev/zero; echo end; echo $? > " + Path("done") + "'";
  const Ran ran = RunShell(CollectLine(File(), "--run-id killed-one", target) + " > " + Path("o") +
                           " & pid=$!; until grep -q ready " + Path("o") +
                           "; do sleep 0.02; done; kill -9 $pid; " + "wait $pid; until [ -s " +
                           Path("done") + " ]; do sleep 0.02; done; cat " + Path("done"));
  EXPECT_EQ(ran.out, "0\n");
  for (int i = 0; i < 100 && std::filesystem::file_size(Path("o")) < 10'000'010; ++i)
    std::this_thread::sleep_for(20ms);
  EXPECT_EQ(std::filesystem::file_size(Path("o")), 10'000'010u);  // 'ready\n', the zeros, 'end\n'
  const Ran planned = RunShell(kTeller + " restore --dry-run");
  EXPECT_THAT(planned.out, HasSubstr("would be written to " + File()));
  EXPECT_EQ(RunShell(kTeller + " restore").exit_code, 0);
  EXPECT_EQ(Collected(File()).CountByName().at("single"), 1500);
  EXPECT_THAT(RunShell(kTeller + " restore").out, StartsWith("nothing to restore"));
}

TEST_F(DurabilityCommandTest, ARestoredTraceDoesNotOverwriteAnother) {
  RunShell(CollectLine(File(), "--run-id first-try",
                       "sh -c '" + kProgram + " pairs 10; echo ready; sleep 30'") +
           " > " + Path("o") + " & pid=$!; until grep -q ready " + Path("o") +
           "; do sleep 0.02; done; sleep 0.7; kill -9 $(pgrep -P $pid -x sh) $pid; wait $pid");
  EXPECT_EQ(RunShell(CollectLine(File(), "", "true")).exit_code, 0);
  const Ran restored = RunShell(kTeller + " restore");
  EXPECT_THAT(restored.out, HasSubstr("t-first-try.h5"));
  EXPECT_EQ(Collected(Path("t-first-try.h5")).CountByName().at("single"), 5);
}

TEST_F(DurabilityCommandTest, SaysInOneLineThatTheDiskIsFullAndKeepsWhatThereIs) {
  if (!CanMount()) GTEST_SKIP() << "mounting needs root";
  const Ran ran = RunWithLittleRoom(
      "400k", CollectLine("$ROOM/t.h5", "--run-id disk-full", kProgram + " pairs 200000") +
                  " || echo code $?; ls $ROOM; umask 022; mount -o remount,size=200m $ROOM; " +
                  kTeller + " restore; " + kTeller + " info --check $ROOM/t.h5 > /dev/null; cp " +
                  "$ROOM/t.h5 " + File());
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("code 125"));
  EXPECT_THAT(ran.err, HasSubstr("make room and run 'teller restore'"));
  const Collected collected(File());
  int64_t records = 0;
  for (const auto& [name, count] : collected.CountByName()) records += count;
  EXPECT_GT(records, 1000);
  EXPECT_EQ(records + collected.Stat("lost_spool_full") + collected.Stat("dropped_no_segment"),
            300'000);
}

TEST_F(DurabilityCommandTest, CountsWhatASmallTmpfsCannotTake) {
  if (!CanMount()) GTEST_SKIP() << "mounting needs root";
  const Ran ran =
      RunWithLittleRoom("300k", CollectLine(File(), "--run-dir $ROOM", kProgram + " pairs 2000"));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("dropped_no_segment: 3000 events"));
  EXPECT_EQ(Collected(File()).Stat("dropped_no_segment"), 3000);
}

TEST_F(DurabilityCommandTest, SaysThatATmpfsHasNoRoomForAProcess) {
  if (!CanMount()) GTEST_SKIP() << "mounting needs root";
  const Ran ran =
      RunWithLittleRoom("40k", CollectLine(File(), "--run-dir $ROOM", kProgram + " pairs 2000"));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("was not recorded: no room for its rings in /mnt"));
  EXPECT_EQ(Collected(File()).Stat("unusable_pool"), 1);
}

// The collector stands still: the target does not, and what finds no room is counted.
TEST_F(DurabilityCommandTest, AnExhaustedPoolNeitherStopsTheTargetNorLosesACount) {
  const std::string target = "sh -c 'echo ready; until [ -e " + Path("go") +
                             " ]; do sleep 0.02; done; " + kProgram + " pairs 400000; echo $? > " +
                             Path("done") + "'";
  const Ran ran = RunShell(
      CollectLine(File(), "", target) + " > " + Path("o") + " & pid=$!; until grep -q ready " +
      Path("o") + "; do sleep 0.02; done; kill -STOP $pid; touch " + Path("go") + "; until [ -s " +
      Path("done") + " ]; do sleep 0.02; done; kill -CONT $pid; wait $pid");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  const Collected collected(File());
  int64_t records = 0;
  for (const auto& [name, count] : collected.CountByName()) records += count;
  EXPECT_EQ(records, 256 * 1023);  // the whole pool
  EXPECT_EQ(records + collected.Stat("dropped_no_segment"), 600'000);
}

TEST_F(DurabilityCommandTest, SaysThatTheRealtimeClockWasSet) {
  const Ran ran =
      RunShell("LD_PRELOAD=" + std::string(TELLER_BINARY_DIR) + "/tests/librealtime_step.so " +
               CollectLine(File(), "", "timeout 1.6 " + kProgram + " forever") + " > /dev/null");
  EXPECT_THAT(ran.err, HasSubstr("CLOCK_REALTIME was set while running, by +5."));
  const Collected collected(File());
  EXPECT_EQ(collected.Stat("realtime_steps"), 1);
  const auto events = collected.Named("single");
  EXPECT_LT(events.back().end_ns - events.front().begin_ns, 4'000'000'000);  // no step in events
}

TEST_F(DurabilityCommandTest, WorksWithoutAnInvariantTimeStampCounter) {
  const Ran ran =
      RunShell("TELLER_CLOCK=monotonic " + CollectLine(File(), "", kProgram + " pairs 1000"));
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.err, HasSubstr("1 processes ran without an invariant time stamp counter"));
  const Collected collected(File());
  EXPECT_EQ(collected.CountByName().at("single"), 500);
  for (const trace::Event& event : collected.Named("inner")) {
    EXPECT_GE(event.end_ns, event.begin_ns);
    EXPECT_GT(event.begin_ns, 0);
  }
}

}  // namespace
}  // namespace teller::testing_support
