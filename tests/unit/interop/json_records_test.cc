#include "src/interop/json_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace teller::interop {
namespace {

/// Takes every record but those that hold `bad`.
class Collector final : public JsonRecordHandler {
 public:
  void OnMember(std::string_view key, std::string_view json) override {
    members[std::string(key)] = std::string(json);
  }
  std::size_t OnRecords(const JsonBatch& batch) override {
    for (std::size_t i = 0; i < batch.records.size(); ++i) {
      const JsonRange range = batch.records[i];
      const std::string text(batch.data + range.begin, range.end - range.begin);
      if (text.find("bad") != std::string::npos) return i;
      records.push_back(text);
    }
    return batch.records.size();
  }
  std::map<std::string, std::string> members;
  std::vector<std::string> records;
};

/// Hands out a few bytes at a time, so that every border falls into the middle of something.
class Dripping final : public ByteStream {
 public:
  Dripping(std::string_view text, std::size_t step) : text_(text), step_(step) {}
  std::size_t Read(char* out, std::size_t size) override {
    const std::size_t count = std::min({size, step_, text_.size()});
    std::copy_n(text_.begin(), count, out);
    text_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view text_;
  std::size_t step_;
};

struct Result {
  Collector found;
  ImportLog log;
  bool json = false;
  bool cut = false;
};

Result Read(std::string_view text, std::size_t step = 1 << 20) {
  Result result;
  Dripping in(text, step);
  JsonRecordReader reader(in, "traceEvents", result.found, result.log);
  result.json = reader.Run();
  result.cut = reader.cut_short();
  return result;
}

constexpr std::string_view kWhole =
    R"( {"a": {"x": [1, "}"]}, "traceEvents": [ {"n": "q\"}]"} , {"m": [{"k": 1}]},{} ], "b": 17} )";

TEST(JsonRecordsTest, CutsRecordsAndMembersWhateverTheBlocksAre) {
  for (const std::size_t step : {1, 2, 3, 7, 1000}) {
    const Result result = Read(kWhole, step);
    EXPECT_TRUE(result.json);
    EXPECT_FALSE(result.cut) << step;
    EXPECT_EQ(result.found.records,
              (std::vector<std::string>{R"({"n": "q\"}]"})", R"({"m": [{"k": 1}]})", "{}"}));
    EXPECT_EQ(result.found.members.at("a"), R"({"x": [1, "}"]})");
    EXPECT_EQ(result.found.members.at("b"), "17");
  }
}

TEST(JsonRecordsTest, KeepsWholeRecordsOfATextCutAnywhere) {
  for (std::size_t size = 0; size < kWhole.size(); ++size) {
    const Result result = Read(kWhole.substr(0, size), 5);
    if (!result.json) continue;
    const bool whole = size >= kWhole.find('}', kWhole.find("17")) + 1;
    EXPECT_EQ(result.cut, !whole) << size;
    EXPECT_EQ(result.log.CountOf("json_cut_short"), whole ? 0 : 1) << size;
    EXPECT_LE(result.found.records.size(), 3u);
  }
}

TEST(JsonRecordsTest, ReadsABareArrayWithoutItsEnd) {
  const Result result = Read(R"([{"a":1},{"b":2},{"c)");
  EXPECT_EQ(result.found.records.size(), 2u);
  EXPECT_TRUE(result.cut);
}

TEST(JsonRecordsTest, GoesOnAfterAMalformedRecord) {
  const Result result = Read(R"({"traceEvents":[{"a":1},{"bad":2},{"c":3}],"z":1})");
  EXPECT_EQ(result.found.records, (std::vector<std::string>{R"({"a":1})", R"({"c":3})"}));
  EXPECT_EQ(result.log.CountOf("malformed_record"), 1);
  EXPECT_EQ(result.found.members.at("z"), "1");
}

TEST(JsonRecordsTest, GoesOnAfterAQuoteThatSwallowsItsNeighbours) {
  // The stray quote opens a string that ends inside the next record.
  const Result result = Read(R"({"traceEvents":[{"a":"bad " x"},{"b":"2"},{"c":3}],"z":1})");
  EXPECT_EQ(result.found.records, (std::vector<std::string>{R"({"b":"2"})", R"({"c":3})"}));
  EXPECT_EQ(result.log.CountOf("malformed_record"), 1);
  EXPECT_EQ(result.found.members.at("z"), "1");
}

TEST(JsonRecordsTest, KeepsWhatFollowsTheArrayWhenTheLastRecordIsMalformed) {
  const Result result =
      Read(R"({"traceEvents":[{"a":1},{"x":"bad " y"}],"baseTimeNanoseconds":7})");
  EXPECT_EQ(result.found.records.size(), 1u);
  EXPECT_EQ(result.found.members.at("baseTimeNanoseconds"), "7");
}

TEST(JsonRecordsTest, EndsOnStrayBrackets) {
  for (const char* text : {"{]", "[}", "[}}}", "{\"traceEvents\":[}:}]}", "[,,,]", "{,}",
                           "{\"a\":,}", "[[[[", "{\"a"}) {
    EXPECT_TRUE(Read(text).json) << text;
  }
  EXPECT_FALSE(Read("17").json);
  EXPECT_FALSE(Read("").json);
}

TEST(JsonRecordsTest, SkipsARecordThatIsTooLongInBoundedMemory) {
  std::string text =
      R"([{"a":1},{"s":")" + std::string(std::size_t{40} << 20, 'x') + R"("},{"c":3}])";
  const Result result = Read(text);
  EXPECT_EQ(result.found.records, (std::vector<std::string>{R"({"a":1})", R"({"c":3})"}));
  EXPECT_EQ(result.log.CountOf("record_too_long"), 1);
}

TEST(JsonRecordsTest, SurvivesDeepNesting) {
  const std::string text = "[" + std::string(2'000'000, '[');
  EXPECT_TRUE(Read(text).cut);
}

}  // namespace
}  // namespace teller::interop
