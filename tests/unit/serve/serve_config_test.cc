#include "src/workload/serve/serve_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/core/error.h"

namespace teller::serve {
namespace {

const std::string kReference = TELLER_SOURCE_DIR "/configs/workload/reference.yaml";

ServeConfig Read(const std::vector<std::string>& overrides) {
  return ReadServeConfig(config::Node::Load(kReference, overrides));
}

std::string ErrorOf(const std::vector<std::string>& overrides) {
  try {
    Read(overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ServeConfigTest, ReadsTheEmbeddedDefault) {
  const ServeConfig config = Read({});
  EXPECT_EQ(config.parallel.tensor, 2);
  EXPECT_EQ(config.model.layers, 4);
  EXPECT_TRUE(std::filesystem::exists(config.model.tokenizer));
}

TEST(ServeConfigTest, HashesWhatItRead) {
  EXPECT_EQ(Read({}).hash, Read({}).hash);
  EXPECT_NE(Read({}).hash, Read({"model.seed=2"}).hash);
}

TEST(ServeConfigTest, SaysWhereAndWhatIsWrong) {
  EXPECT_THAT(ErrorOf({"model.layer=2"}), testing::HasSubstr("layers"));
  EXPECT_THAT(ErrorOf({"model.heads=7"}),
              testing::HasSubstr("hidden 256 does not divide by heads 7"));
  EXPECT_THAT(ErrorOf({"parallel.tensor=8"}),
              testing::HasSubstr("kv_heads 4 does not divide by tensor 8"));
  EXPECT_THAT(ErrorOf({"parallel.pipeline=5"}), testing::HasSubstr("above model.layers 4"));
  EXPECT_THAT(ErrorOf({"engine.blocks=0"}), testing::HasSubstr("blocks"));
  EXPECT_THAT(ErrorOf({"engine.max_step_tokens=3"}), testing::HasSubstr("max_requests"));
}

}  // namespace
}  // namespace teller::serve
