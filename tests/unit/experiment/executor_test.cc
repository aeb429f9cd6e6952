#include "src/experiment/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "src/core/atomic_file.h"
#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::experiment {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("teller-executor-test-" + std::to_string(::getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  /// A stage that copies its inputs' text and adds its own, and leaves a mark each time it runs.
  Stage Append(const std::string& kind, const std::string& text, std::vector<StageId> inputs = {}) {
    return {.kind = kind,
            .name = text,
            .version = "1",
            .settings = text,
            .inputs = std::move(inputs),
            .make = [this, kind, text](const StageContext& context) {
              std::ofstream(root_ / "marks", std::ios::app) << kind << ' ' << text << '\n';
              std::string all;
              for (const fs::path& input : context.inputs) all += ReadFile(input / "text");
              std::ofstream(context.output / "text") << all + text;
            }};
  }
  std::string Marks() const { return fs::exists(root_ / "marks") ? ReadFile(root_ / "marks") : ""; }

  fs::path root_;
};

TEST_F(ExecutorTest, RunsInOrderOfInputsAndASecondRunDoesNothing) {
  Plan plan;
  const StageId a = plan.Add(Append("first", "a"));
  const StageId b = plan.Add(Append("first", "b"));
  plan.Add(Append("second", "c", {a, b}));
  const auto states = Execute(plan, StageStore(root_), {.jobs = 2});
  EXPECT_EQ(ReadFile(states[2].record->folder / "text"), "abc");
  EXPECT_EQ(states[2].record->folder.parent_path(), root_ / "second");
  const std::string marks = Marks();
  const auto again = Execute(plan, StageStore(root_), {.jobs = 2});
  EXPECT_EQ(Marks(), marks);
  EXPECT_EQ(again[2].record->content, states[2].record->content);
}

TEST_F(ExecutorTest, ChangedSettingsOrCodeRunOnlyWhatDependsOnThem) {
  Plan plan;
  const StageId a = plan.Add(Append("first", "a"));
  plan.Add(Append("second", "c", {a}));
  Execute(plan, StageStore(root_), {});
  plan.stages[1].version = "2";
  Execute(plan, StageStore(root_), {});
  EXPECT_EQ(Marks(), "first a\nsecond c\nsecond c\n");
}

TEST_F(ExecutorTest, ADeletedOrDamagedResultIsMadeAgain) {
  Plan plan;
  const StageId a = plan.Add(Append("first", "a"));
  plan.Add(Append("second", "c", {a}));
  const auto states = Execute(plan, StageStore(root_), {});
  std::ofstream(states[0].record->folder / "text") << "longer than before";
  fs::remove_all(states[1].record->folder);
  const auto again = Execute(plan, StageStore(root_), {});
  EXPECT_EQ(ReadFile(again[1].record->folder / "text"), "ac");
}

TEST_F(ExecutorTest, LooksUpWithoutRunning) {
  Plan plan;
  const StageId a = plan.Add(Append("first", "a"));
  plan.Add(Append("second", "c", {a}));
  const auto states = LookUp(plan, StageStore::ForReading(root_));
  EXPECT_TRUE(states[0].key.has_value());
  EXPECT_FALSE(states[0].cached());
  EXPECT_FALSE(states[1].key.has_value());
  EXPECT_FALSE(fs::exists(root_));
}

TEST_F(ExecutorTest, AFailureKeepsFinishedWorkAndItsExitCode) {
  Plan plan;
  const StageId a = plan.Add(Append("first", "a"));
  Stage broken = Append("second", "b", {a});
  broken.make = [](const StageContext& context) {
    std::ofstream(context.output / "half") << "written";
    throw UnavailableError("no such engine");
  };
  plan.Add(broken);
  try {
    Execute(plan, StageStore(root_), {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "stage second 'b': no such engine");
    EXPECT_EQ(error.code(), ExitCode::kUnavailable);
  }
  const auto states = LookUp(plan, StageStore::ForReading(root_));
  EXPECT_TRUE(states[0].cached());
  EXPECT_FALSE(states[1].cached());
  EXPECT_TRUE(fs::is_empty(root_ / "second"));
}

TEST_F(ExecutorTest, AStageMayBeTriedAgain) {
  Plan plan;
  Stage flaky = Append("first", "a");
  flaky.attempts = 2;
  flaky.make = [this, make = flaky.make](const StageContext& context) {
    const bool first_time = Marks().empty();
    make(context);
    if (first_time) throw DeviceError("a rank died");
  };
  plan.Add(flaky);
  EXPECT_TRUE(Execute(plan, StageStore(root_), {})[0].cached());
  EXPECT_EQ(Marks(), "first a\nfirst a\n");
}

TEST_F(ExecutorTest, ExclusiveStagesRunAlone) {
  Plan plan;
  for (int i = 0; i < 4; ++i) {
    Stage stage = Append(i % 2 == 0 ? "measure" : "compute", std::to_string(i));
    stage.exclusive = i % 2 == 0;
    stage.make = [this, stage](const StageContext& context) {
      std::ofstream(root_ / "marks", std::ios::app) << "begin " << stage.kind << '\n';
      ::usleep(30'000);
      std::ofstream(root_ / "marks", std::ios::app) << "end " << stage.kind << '\n';
      std::ofstream(context.output / "text") << stage.name;
    };
    plan.Add(stage);
  }
  Execute(plan, StageStore(root_), {.jobs = 4});
  EXPECT_THAT(Marks(),
              ::testing::StartsWith("begin measure\nend measure\nbegin measure\nend measure\n"));
}

TEST_F(ExecutorTest, AKilledStageIsNamedAndLeavesNothing) {
  Plan plan;
  Stage stage = Append("first", "a");
  stage.make = [](const StageContext&) { ::raise(SIGKILL); };
  plan.Add(stage);
  try {
    Execute(plan, StageStore(root_), {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("stage first 'a': its process was killed by SIGKILL"));
  }
  StageStore store(root_);  // removes the half-written folder
  EXPECT_TRUE(fs::is_empty(root_ / "first"));
}

TEST_F(ExecutorTest, TwoRunsOfOneResultAreRefused) {
  StageStore store(root_);
  const pid_t other = ::fork();
  if (other == 0) {
    try {
      StageStore second(root_);
    } catch (const Error& error) {
      const bool clear = std::string(error.what()).find("another run is writing") == 0;
      ::_exit(clear ? static_cast<int>(error.code()) : 99);
    }
    ::_exit(98);
  }
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::kFailed));
}

TEST_F(ExecutorTest, WhatAKilledRunLeftIsWaitedFor) {
  fs::create_directories(root_);
  const pid_t runner = ::fork();
  if (runner == 0) {
    StageStore store(root_);
    if (::fork() == 0) {  // as the holder of a run's nodes, which outlives it for a moment
      ::usleep(300'000);
      std::ofstream(root_ / "undone") << "all";
    }
    ::_exit(0);
  }
  ::waitpid(runner, nullptr, 0);
  StageStore next(root_);
  EXPECT_TRUE(fs::exists(root_ / "undone"));
}

TEST_F(ExecutorTest, ChildrenDieWithAKilledRunner) {
  Plan plan;
  Stage stage = Append("first", "a");
  stage.make = [this](const StageContext&) {
    std::ofstream(root_ / "marks") << ::getpid() << '\n';
    ::sleep(60);
  };
  plan.Add(stage);
  fs::create_directories(root_);
  const pid_t runner = ::fork();
  if (runner == 0) {
    Execute(plan, StageStore(root_), {});
    ::_exit(0);
  }
  for (int i = 0; i < 500 && Marks().find('\n') == std::string::npos; ++i) ::usleep(10'000);
  const pid_t child = std::stoi(Marks());
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {
    const std::string stat = fs::exists("/proc/" + std::to_string(child)) ? "alive" : "gone";
    gone = stat == "gone" || ::kill(child, 0) != 0;
    std::ifstream status("/proc/" + std::to_string(child) + "/stat");
    std::string text((std::istreambuf_iterator<char>(status)), {});
    gone = gone ||
           text.find(") Z ") != std::string::npos;  // nobody reaps it in a container without init
    ::usleep(10'000);
  }
  EXPECT_TRUE(gone);
  EXPECT_NO_THROW(StageStore{root_});
}

}  // namespace
}  // namespace teller::experiment
