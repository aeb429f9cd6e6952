#include "src/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/error.h"

namespace teller::model {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ModelConfigTest, EmptyObjectGivesTheDefaults) {
  const ModelConfig config = ParseModelConfig("{}", "config");
  EXPECT_EQ(config.d_model, 64);
  EXPECT_EQ(config.updates, 200);
  EXPECT_TRUE(config.modalities.logs);
}

TEST(ModelConfigTest, JsonOfAConfigurationReadsBackToTheSameText) {
  const ModelConfig config = ParseModelConfig(
      R"({"d_model": 128, "layers": 4, "selection": "order", "modalities": {"logs": false}, "attributes": {"rank": false}})",
      "config");
  const std::string json = ModelConfigJson(config);
  EXPECT_EQ(ModelConfigJson(ParseModelConfig(json, "config")), json);
  EXPECT_FALSE(config.modalities.logs);
  EXPECT_FALSE(config.attributes.rank);
  EXPECT_EQ(config.selection, Selection::kOrder);
}

TEST(ModelConfigTest, NamesTheNearestKeyOfAnUnknownOne) {
  EXPECT_THAT([] { ParseModelConfig(R"({"modalities": {"tokns": true}})", "config"); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("config.modalities: unknown key 'tokns'; did you mean 'tokens'?")));
}

TEST(ModelConfigTest, RefusesWrongTypesAndRanges) {
  const auto parse = [](const char* text) { return [text] { ParseModelConfig(text, "config"); }; };
  EXPECT_THAT(parse(R"({"layers": 0})"),
              ThrowsMessage<ConfigError>(HasSubstr("config.layers: out of range")));
  EXPECT_THAT(parse(R"({"layers": "two"})"),
              ThrowsMessage<ConfigError>(HasSubstr("expected a whole number")));
  EXPECT_THAT(parse(R"({"layers": 18446744073709551615})"),
              ThrowsMessage<ConfigError>(HasSubstr("out of range")));
  EXPECT_THAT(parse(R"({"dropout": 1})"),
              ThrowsMessage<ConfigError>(HasSubstr("config.dropout: out of range")));
  EXPECT_THAT(parse(R"({"d_model": 66})"),
              ThrowsMessage<ConfigError>(HasSubstr("no multiple of heads")));
  EXPECT_THAT(
      parse(
          R"({"modalities": {"tokens": false, "numbers": false, "logs": false, "localizer": false}})"),
      ThrowsMessage<ConfigError>(HasSubstr("all four are off")));
  EXPECT_THAT(parse("[]"), ThrowsMessage<ConfigError>(HasSubstr("expected an object")));
  EXPECT_THAT(parse("{"), ThrowsMessage<ConfigError>(HasSubstr("not valid JSON")));
}

}  // namespace
}  // namespace teller::model
