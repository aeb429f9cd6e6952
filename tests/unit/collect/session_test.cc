#include "src/collect/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::collect {
namespace {

using testing_support::TemporaryFolder;

SessionOptions OptionsIn(const TemporaryFolder& folder) {
  std::ofstream(folder / "agent.so") << "stands in for the library";
  std::filesystem::create_directory(folder / "run");
  return {.output = folder / "trace.h5",
          .run_dir = folder / "run",
          .agent_library = folder / "agent.so"};
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(SessionTest, WritesAWholeFileWhenNothingHappened) {
  const TemporaryFolder folder;
  const auto session = Session::Start(OptionsIn(folder));
  session->Finish();
  const trace::TraceReader reader(folder / "trace.h5");
  EXPECT_TRUE(reader.complete());
  EXPECT_TRUE(reader.processes().empty());
  EXPECT_EQ(reader.meta().run_id, session->run_id());
}

TEST(SessionTest, LeavesNothingBehindWithoutFinish) {
  const TemporaryFolder folder;
  SessionOptions options = OptionsIn(folder);
  options.run_dir.clear();
  std::filesystem::path run_dir;
  {
    const auto session = Session::Start(options);
    run_dir = session->run_dir();
    EXPECT_TRUE(std::filesystem::exists(run_dir / "control"));
  }
  EXPECT_FALSE(std::filesystem::exists(run_dir));
  EXPECT_FALSE(std::filesystem::exists(folder / "trace.h5"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::StartsWith(".")));
  }
}

TEST(SessionTest, KeepsWhatTheVariablesHeld) {
  const TemporaryFolder folder;
  setenv("LD_PRELOAD", "/lib/theirs.so", 1);
  setenv("NVTX_INJECTION64_PATH", "/lib/nsight.so", 1);
  const auto session = Session::Start(OptionsIn(folder));
  unsetenv("LD_PRELOAD");
  auto variables = session->Environment("node1");
  unsetenv("NVTX_INJECTION64_PATH");
  const std::string agent = (folder / "agent.so").string();
  EXPECT_EQ(variables.at("LD_PRELOAD"), agent);
  EXPECT_EQ(variables.at("NVTX_INJECTION64_PATH"), agent);
  EXPECT_EQ(variables.at("TELLER_NEXT_NVTX_INJECTION64_PATH"), "/lib/nsight.so");
  EXPECT_EQ(variables.at("TELLER_NODE"), "node1");
  EXPECT_EQ(variables.at("TELLER_RUN_DIR"), (folder / "run").string());
}

TEST(SessionTest, RecordsLogLinesOfFollowedFiles) {
  const TemporaryFolder folder;
  const auto session = Session::Start(OptionsIn(folder));
  session->AddLogFile("node0", "logs/node0.stdout.log", folder / "out.log");
  std::ofstream(folder / "out.log") << "one\ntwo";
  session->Finish();
  const trace::TraceReader reader(folder / "trace.h5");
  const std::vector<trace::LogLine> lines = reader.ReadLogs();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_EQ(lines[1].text, "two");
  EXPECT_EQ(lines[1].offset, 4u);
  EXPECT_EQ(reader.strings().View(lines[0].file), "logs/node0.stdout.log");
}

TEST(SessionTest, RefusesWhatItCannotDoInOneLine) {
  const TemporaryFolder folder;
  SessionOptions options = OptionsIn(folder);
  std::ofstream(folder / "trace.h5") << "there";
  EXPECT_THAT(MessageOf([&] { Session::Start(options); }), testing::HasSubstr("exists already"));
  options.force = true;
  options.agent_library = "";
  setenv("TELLER_AGENT_LIBRARY", "/nowhere/agent.so", 1);
  EXPECT_THAT(MessageOf([&] { Session::Start(options); }), testing::HasSubstr("/nowhere/agent.so"));
  unsetenv("TELLER_AGENT_LIBRARY");
}

TEST(ParseLevelTest, NamesWhatItExpects) {
  EXPECT_EQ(ParseLevel("ranges"), Level::kRanges);
  EXPECT_THAT(MessageOf([] { ParseLevel("max"); }), testing::HasSubstr("off, ranges or full"));
}

TEST(ParseSourcesTest, TakesAListAndRefusesTheUnknown) {
  EXPECT_EQ(ParseSources("nvtx,cpu-stream"),
            (1u << TELLER_SOURCE_NVTX) | (1u << TELLER_SOURCE_CPU_STREAM));
  EXPECT_THAT(MessageOf([] { ParseSources("nvtx,ebpf"); }), testing::HasSubstr("'ebpf'"));
}

}  // namespace
}  // namespace teller::collect
