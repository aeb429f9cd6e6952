#include "src/cli/export_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/interop/import_file.h"
#include "tests/support/temporary_folder.h"

namespace teller::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kKineto = R"({"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":7,"tid":8,"ts":1,"dur":90},
  {"ph":"X","cat":"cpu_op","name":"aten::mm, \"quoted\"","pid":7,"tid":8,"ts":2,"dur":50},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":8,"ts":3,"dur":4,"args":{"correlation":11}},
  {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":5,"ts":9,"dur":6,"args":{"stream":5,"correlation":11}}]})";

class ExportCommandTest : public ::testing::Test {
 protected:
  ExportCommandTest() {
    WriteFileAtomically(folder_ / "rank-0.json", kKineto);
    interop::ImportToFile({folder_ / "rank-0.json"}, trace_, false, {});
  }
  std::string Export(ExportCommandOptions options) {
    if (options.trace.empty()) options.trace = trace_;
    ::testing::internal::CaptureStdout();
    try {
      RunExport(options);
    } catch (const Error&) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    return ::testing::internal::GetCapturedStdout();
  }

  const testing_support::TemporaryFolder folder_;
  const std::string trace_ = folder_ / "trace.h5";
};

TEST_F(ExportCommandTest, WritesEveryFormatAndSaysHowMuch) {
  for (const auto& [format, file] :
       {std::pair{"perfetto", "t.pftrace"}, {"csv", "t.csv"}, {"published", "published"}}) {
    const std::string output = folder_ / file;
    const auto report =
        nlohmann::json::parse(Export({.format = format, .output = output, .json = true}));
    EXPECT_EQ(report["written_events"], 4) << format;
    EXPECT_TRUE(std::filesystem::exists(output)) << format;
  }
  const std::string csv = ReadFile(folder_ / "t.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);  // a header and four events
  EXPECT_THAT(csv, HasSubstr(R"("aten::mm, ""quoted""")"));
}

TEST_F(ExportCommandTest, OverwritesOnlyWhenTold) {
  for (const auto& [format, file] :
       {std::pair{"perfetto", "t.pftrace"}, {"csv", "t.csv"}, {"published", "published"}}) {
    const std::string output = folder_ / file;
    Export({.format = format, .output = output});
    EXPECT_THROW(Export({.format = format, .output = output}), ConfigError) << format;
    EXPECT_NO_THROW(Export({.format = format, .output = output, .force = true})) << format;
  }
}

TEST_F(ExportCommandTest, RefusesLabelsWhereTheFormatHasNone) {
  EXPECT_THROW(Export({.steps = "steps.h5", .format = "csv", .output = folder_ / "t.csv"}),
               ConfigError);
}

TEST_F(ExportCommandTest, ADamagedTraceIsOneLineAndLeavesNothing) {
  const std::string broken = folder_ / "broken.h5", output = folder_ / "t.pftrace";
  std::string bytes = ReadFile(trace_);
  bytes.resize(bytes.size() / 3);
  std::ofstream(broken, std::ios::binary) << bytes;
  try {
    Export({.trace = broken, .format = "perfetto", .output = output});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(std::string(error.what()), Not(HasSubstr("\n")));
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("partial")));
    ++files;
  }
  EXPECT_EQ(files, 3);  // the source, the trace, the broken one
}

}  // namespace
}  // namespace teller::cli
