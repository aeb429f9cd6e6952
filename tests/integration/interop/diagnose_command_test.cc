#include "src/cli/diagnose_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/h5/file.h"
#include "tests/support/temporary_folder.h"

namespace teller::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::TemporaryFolder;

/// A step of several ranks as the PyTorch profiler writes it, microseconds: on each of six layers
/// an operator launches a kernel, then an all-reduce, which ends on all ranks together.
struct Job {
  int ranks = 4;
  int slow_rank = -1;  ///< its operator of the third layer takes `slow_us` longer
  int slow_us = 0;
  int slow_link_us = 0;  ///< the third layer's all-reduce takes so much longer on all ranks
};

class JobWriter {
 public:
  JobWriter(const Job& job, int rank) : job_(job), rank_(rank) {
    Add("user_annotation", "ProfilerStep#3", 1, 0, 100'000, "{}");
    for (int layer = 0; layer < 6; ++layer) AddLayer(layer, 1000 + 10'000 * layer);
  }
  std::string Text() const {
    return fmt::format(
        R"({{"distributedInfo":{{"rank":{},"world_size":{}}},"traceEvents":[{}{{}}]}})", rank_,
        job_.ranks, events_);
  }

 private:
  void Add(const char* category, const std::string& name, int track, int begin, int length,
           const std::string& arguments) {
    events_ += fmt::format(
        R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{}}},)",
        category, name, track == 7 ? 0 : 100 + rank_, track, begin, length, arguments);
  }
  void AddLayer(int layer, int begin) {
    const bool slow_layer = layer == 2;
    // Ranks differ by a few microseconds, as they do.
    const int slow = slow_layer && rank_ == job_.slow_rank ? job_.slow_us : 0;
    const int length = 400 + (rank_ * 7 + layer * 3) % 11 + slow;
    const int link = slow_layer ? job_.slow_link_us : 0;
    // All are there when the last one is.
    const int all_there = begin + 900 + (slow_layer && job_.slow_rank >= 0 ? job_.slow_us : 0);
    Add("cpu_op", "aten::linear", 1, begin, length, "{}");
    Add("cuda_runtime", "cudaLaunchKernel", 1, begin + length - 10, 5,
        fmt::format(R"({{"correlation":{}}})", 10 * layer + 1));
    Add("kernel", "gemm_kernel", 7, begin + length, 200,
        fmt::format(R"({{"stream":7,"device":0,"correlation":{}}})", 10 * layer + 1));
    Add("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 7, begin + length + 220,
        all_there + 100 + link - (begin + length + 220),
        fmt::format(
            R"({{"stream":7,"device":0,"correlation":{},"Collective name":"allreduce","In msg nelems":4096,)"
            R"("Out msg nelems":4096,"Group size":4,"dtype":"Float","Process Group Name":"0"}})",
            10 * layer + 2));
  }

  const Job& job_;
  const int rank_;
  std::string events_;
};

std::vector<std::string> WriteJob(const TemporaryFolder& folder, const Job& job) {
  std::vector<std::string> files;
  for (int rank = 0; rank < job.ranks; ++rank) {
    files.push_back(folder / fmt::format("rank-{}.json", rank));
    WriteFileAtomically(files.back(), JobWriter(job, rank).Text(), true);
  }
  return files;
}

struct Printed {
  int exit_code = 0;
  std::string text;
};

Printed Diagnose(const DiagnoseCommandOptions& options) {
  ::testing::internal::CaptureStdout();
  Printed printed;
  try {
    printed.exit_code = RunDiagnose(options);
  } catch (const Error&) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  printed.text = ::testing::internal::GetCapturedStdout();
  return printed;
}
json RunJson(const std::vector<std::string>& inputs) {
  return json::parse(Diagnose({.inputs = inputs, .json = true}).text);
}

TEST(DiagnoseCommandTest, AWaitIsBlamedOnTheLastStarterAndWhatItDidBefore) {
  const TemporaryFolder folder;
  const json run = RunJson(WriteJob(folder, {.slow_rank = 2, .slow_us = 6000}));
  EXPECT_EQ(run["verdict"], "abnormal");
  const json& first = run["steps"][0]["candidates"][0];
  EXPECT_EQ(first["rank"], 2);
  EXPECT_EQ(first["operator"], "aten::linear");
  EXPECT_NEAR(first["observed_ns"].get<double>(), 6.4e6, 0.1e6);
  EXPECT_NEAR(first["expected_ns"].get<double>(), 0.4e6, 0.05e6);
  for (const json& candidate : run["steps"][0]["candidates"])
    EXPECT_NE(candidate["measure"], "wait");
  EXPECT_EQ(run["late_starters"][0]["rank"], 2);
  EXPECT_EQ(run["late_starters"][0]["cause"], "aten::linear");
  EXPECT_EQ(run["basis"], "inside");
}

TEST(DiagnoseCommandTest, WhereAllStartTogetherALongTransferIsBlamedOnTheLink) {
  const TemporaryFolder folder;
  const json run = RunJson(WriteJob(folder, {.ranks = 2, .slow_link_us = 7000}));
  EXPECT_EQ(run["verdict"], "abnormal");
  const json& first = run["steps"][0]["candidates"][0];
  EXPECT_EQ(first["measure"], "transfer");
  ASSERT_TRUE(first["peer"].is_number());
  EXPECT_EQ(first["rank"].get<int>() + first["peer"].get<int>(), 1);
  EXPECT_THAT(run["steps"][0]["explanation"].get<std::string>(), HasSubstr("Between rank"));
}

TEST(DiagnoseCommandTest, AHealthyTraceGivesNothingAbnormalFoundAndExitCodeZero) {
  const TemporaryFolder folder;
  const auto inputs = WriteJob(folder, {});
  const Printed printed = Diagnose({.inputs = inputs, .fail_on_finding = true});
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_THAT(printed.text, HasSubstr("Nothing abnormal found."));
  EXPECT_THAT(printed.text, HasSubstr("which is weaker"));
  EXPECT_EQ(RunJson(inputs)["verdict"], "healthy");
}

TEST(DiagnoseCommandTest, FindingsGiveExitCodeThreeOnlyWhenAsked) {
  const TemporaryFolder folder;
  const auto inputs = WriteJob(folder, {.slow_rank = 1, .slow_us = 8000});
  EXPECT_EQ(Diagnose({.inputs = inputs}).exit_code, 0);
  EXPECT_EQ(Diagnose({.inputs = inputs, .fail_on_finding = true}).exit_code, 3);
}

TEST(DiagnoseCommandTest, AFolderIsOneRun) {
  const TemporaryFolder folder;
  WriteJob(folder, {.slow_rank = 3, .slow_us = 6000});
  EXPECT_EQ(RunJson({folder.path().string()})["steps"][0]["candidates"][0]["rank"], 3);
}

TEST(DiagnoseCommandTest, ThePageStandsAloneAndIsNotOverwritten) {
  const TemporaryFolder folder;
  const auto inputs = WriteJob(folder, {.slow_rank = 2, .slow_us = 6000});
  const std::string page = folder / "report.html";
  Diagnose({.inputs = inputs, .html = page});
  const std::string text = ReadFile(page);
  EXPECT_LT(text.size(), std::size_t{10} << 20);
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_THAT(text, Not(HasSubstr(outside)));
  EXPECT_THAT(text, HasSubstr("aten::linear"));
  EXPECT_THROW(Diagnose({.inputs = inputs, .html = page}), ConfigError);
  EXPECT_NO_THROW(Diagnose({.inputs = inputs, .html = page, .force = true}));
}

TEST(DiagnoseCommandTest, WhatIsNoTraceIsRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::string broken = folder / "broken.h5", foreign = folder / "foreign.h5";
  std::ofstream(broken, std::ios::binary) << "\x89HDF\r\n\x1a\n" << std::string(600, '\x07');
  { h5::File::Create(foreign).root().SetAttribute("schema_name", "baseline"); }
  for (const std::string& file : {broken, foreign}) {
    try {
      RunDiagnose({.inputs = {file}});
      FAIL() << file;
    } catch (const DataError& error) {
      EXPECT_THAT(std::string(error.what()), Not(HasSubstr("\n")));
      EXPECT_THAT(std::string(error.what()), HasSubstr(file));
    }
  }
}

class SharedDiagnosisTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("TELLER_SHARED_DIR");
    traces_ =
        (shared != nullptr ? std::filesystem::path(shared)
                           : std::filesystem::path(TELLER_SOURCE_DIR).parent_path() / "shared") /
        "traces";
    if (!std::filesystem::exists(traces_ / "MANIFEST.tsv"))
      GTEST_SKIP() << "no shared traces at " << traces_;
  }
  std::filesystem::path traces_;
};

// Counted from the JSON files alone: of eight collectives rank 7 began the first five last, rank 5
// the next two, rank 4 the last; the median of the others had begun 4,669, 1,017, 167, 124 and 127
// us before rank 7, whose step began late.
TEST_F(SharedDiagnosisTest, NamesTheLateStartersOfTheEightRankFile) {
  const json run = RunJson({(traces_ / "param/dlrm_kineto.tar.gz").string()});
  ASSERT_EQ(run["late_starters"].size(), 3u);
  const std::vector<std::pair<int, int>> expected{{7, 5}, {5, 2}, {4, 1}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(run["late_starters"][i]["rank"], expected[i].first);
    EXPECT_EQ(run["late_starters"][i]["collectives"], expected[i].second);
    EXPECT_EQ(run["late_starters"][i]["of"], 8);
  }
  EXPECT_NEAR(run["late_starters"][0]["late_ns"].get<double>(), 6'104'000, 20'000);
}

// Its label: no finding of communication, none of idle time.
TEST_F(SharedDiagnosisTest, FindsNothingInTheHealthyFile) {
  const Printed printed = Diagnose(
      {.inputs = {(traces_ / "nsys-ai/healthy_1pct.sqlite").string()}, .fail_on_finding = true});
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_THAT(printed.text, HasSubstr("Nothing abnormal found."));
  EXPECT_THAT(printed.text, Not(HasSubstr("idle")));
}

}  // namespace
}  // namespace teller::cli
