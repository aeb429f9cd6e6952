#include "src/cli/tokenize_command.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/dataset/pipeline.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/tokens_file.h"
#include "tests/support/forest_generator.h"
#include "tests/support/temporary_folder.h"

namespace teller::cli {
namespace {

using ::testing::HasSubstr;

class TokenizeCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto run = testing_support::GenerateRun({.steps = 60, .calibration_steps = 20});
    dataset::WriteSteps(folder_ / "steps.h5", run);
    const std::vector<std::filesystem::path> training{folder_ / "steps.h5"};
    dataset::FitBaselineStage(training, folder_ / "baseline.h5");
    dataset::CutSlicesStage(folder_ / "steps.h5", folder_ / "baseline.h5", folder_ / "slices.h5");
    Run({.inputs = {(folder_ / "slices.h5").string()},
         .vocabulary = Vocabulary(),
         .train = true,
         .size = 64});
  }
  std::string Vocabulary() const { return (folder_ / "vocabulary.json").string(); }
  std::string Steps() const { return (folder_ / "steps.h5").string(); }
  std::string Run(const TokenizeOptions& options) {
    testing::internal::CaptureStdout();
    try {
      RunTokenize(options);
    } catch (...) {
      std::fflush(stdout);
      testing::internal::GetCapturedStdout();
      throw;
    }
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(TokenizeCommandTest, EncodesWholeStepsAndSlicesAlike) {
  TokenizeOptions options{.inputs = {Steps()}, .vocabulary = Vocabulary(), .json = true};
  const auto whole = nlohmann::json::parse(Run(options));
  options.slices = (folder_ / "slices.h5").string();
  options.output = (folder_ / "tokens.h5").string();
  const auto sliced = nlohmann::json::parse(Run(options));
  EXPECT_EQ(whole["steps"], 60);
  EXPECT_EQ(whole["forest_nodes"], sliced["forest_nodes"]);
  EXPECT_EQ(whole["forest_tokens"], sliced["forest_tokens"]);
  EXPECT_EQ(whole["unknown_symbols"], 0);
  EXPECT_GT(whole["compression"], 0.5);
  EXPECT_EQ(dataset::ReadTokens(options.output).steps.size(), 60u);
}

TEST_F(TokenizeCommandTest, ExplainsAStep) {
  const std::string text =
      Run({.inputs = {Steps()}, .vocabulary = Vocabulary(), .explain = true, .step = 3, .top = 2});
  EXPECT_THAT(text, HasSubstr("Step 3: "));
  EXPECT_THAT(text, HasSubstr("linear(launch)"));
  EXPECT_THAT(text, HasSubstr("Most used tokens:"));
}

TEST_F(TokenizeCommandTest, BadInputIsOneClearLine) {
  const auto message = [&](const TokenizeOptions& options) -> std::string {
    try {
      Run(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(message({.inputs = {Steps()}, .vocabulary = Steps()}),
              HasSubstr("expected a vocabulary"));
  EXPECT_THAT(message({.inputs = {Steps(), Steps()}, .vocabulary = Vocabulary()}),
              HasSubstr("one steps.h5"));
  EXPECT_THAT(message({.inputs = {Steps()}, .vocabulary = Vocabulary(), .output = "x"}),
              HasSubstr("--slices"));
  EXPECT_THAT(message({.inputs = {Steps()}, .vocabulary = Vocabulary(), .barriers = "all"}),
              HasSubstr("barriers"));
  EXPECT_THAT(
      message({.inputs = {Steps()}, .vocabulary = Vocabulary(), .explain = true, .step = 99}),
      HasSubstr("no such step"));
  EXPECT_THAT(message({.inputs = {(folder_ / "slices.h5").string()},
                       .vocabulary = Vocabulary(),
                       .train = true}),
              HasSubstr("vocabulary.json"));  // exists, no --force
}

}  // namespace
}  // namespace teller::cli
