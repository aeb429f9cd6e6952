#include "src/model/model_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/dataset/predictions_file.h"
#include "src/dataset/tokens_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tokens_generator.h"

namespace teller::model {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing_support::MakeTokens;
using testing_support::TemporaryFolder;
using Json = nlohmann::json;

bool GoOn(int64_t, int64_t, const std::string&) { return true; }

TEST(ModelLoaderTest, AnAbsentLibraryIsUnavailable) {
  try {
    ModelLibrary::Open({"/nowhere/libteller_model.so"});
    FAIL() << "opened";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/libteller_model.so"));
  }
}

TEST(ModelLoaderTest, AFileThatIsNoLibraryIsUnavailable) {
  const TemporaryFolder folder;
  WriteFileAtomically(folder / "libteller_model.so", "text");
  EXPECT_THROW(ModelLibrary::Open({folder / "libteller_model.so"}), UnavailableError);
}

class ModelLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef TELLER_HAS_MODEL_LIBRARY
    GTEST_SKIP() << "built without torch";
#endif
  }
  std::string Write(const std::string& name, uint64_t seed, int steps) {
    const auto path = folder_ / (name + ".h5");
    dataset::WriteTokens(
        path, MakeTokens({.seed = seed, .run_id = name, .steps = steps, .tokens_per_rank = 10}));
    return path.string();
  }
  static ModelLibrary Open() {
    return ModelLibrary::Open({std::string(TELLER_BINARY_DIR) + "/lib/libteller_model.so"});
  }
  TemporaryFolder folder_;
};

TEST_F(ModelLibraryTest, FilesGoInAndPredictionsOfEveryStepComeOut) {
  const std::string train = Write("a", 1, 80), test = Write("b", 2, 50);
  const ModelLibrary library = Open();
  const std::string model = (folder_ / "model").string(), output = (folder_ / "p.h5").string();
  const Json config = {{"d_model", 16}, {"heads", 2}, {"layers", 1}, {"updates", 5}, {"batch", 8}};
  const Json request = {{"train", {train}},
                        {"validation", {test}},
                        {"output", model},
                        {"seed", 4},
                        {"config", config}};
  int calls = 0;
  library.Train(request.dump(), [&](int64_t done, int64_t total, const std::string& note) {
    EXPECT_EQ(done, ++calls);
    EXPECT_EQ(total, 5);
    EXPECT_THAT(note, HasSubstr("loss"));
    return true;
  });
  EXPECT_EQ(calls, 5);
  library.Predict(Json{{"model", model}, {"tokens", {train, test}}, {"output", output}}.dump(),
                  GoOn);
  const auto predictions = dataset::ReadPredictions(output);
  EXPECT_EQ(predictions.seed, 4);
  EXPECT_EQ(predictions.kinds.back(), "unknown");
  ASSERT_EQ(predictions.steps.size(), 130);
  for (const auto& step : predictions.steps) {
    EXPECT_TRUE(std::isfinite(step.score));
    EXPECT_EQ(step.operators.size(), 5);
    double sum = 0;
    for (const float p : step.kind_probability) sum += p;
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST_F(ModelLibraryTest, FailuresAreOneLineWithTheirExitCode) {
  const ModelLibrary library = Open();
  const auto code_of = [&](const Json& request) {
    try {
      library.Train(request.dump(), GoOn);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code_of({{"train", {"absent.h5"}}, {"output", "x"}}), ExitCode::kBadInput);
  EXPECT_EQ(code_of({{"trian", {"absent.h5"}}}), ExitCode::kBadInput);
  EXPECT_EQ(code_of({{"train", Json::array()}, {"output", "x"}}), ExitCode::kBadInput);
  EXPECT_EQ(code_of({{"train", {"a"}}, {"output", "x"}, {"config", {{"layer", 3}}}}),
            ExitCode::kBadInput);
}

TEST_F(ModelLibraryTest, AnErrorInTheProgressCallComesBackUnchanged) {
  const ModelLibrary library = Open();
  const Json config = {{"d_model", 16}, {"heads", 2}, {"layers", 1}, {"updates", 5}, {"batch", 8}};
  const Json request = {
      {"train", {Write("a", 1, 60)}}, {"output", (folder_ / "m").string()}, {"config", config}};
  EXPECT_THAT(
      [&] { library.Train(request.dump(), [](auto&&...) -> bool { throw CheckError("mine"); }); },
      ThrowsMessage<CheckError>("mine"));
}

}  // namespace
}  // namespace teller::model
