#include "src/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/core/error.h"

namespace teller::config {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;

/// The message of the ConfigError that `action` throws, or what else happened.
template <typename Action>
std::string MessageOf(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// A folder of its own for files that include each other.
class IncludeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("teller-config-test-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path Write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  fs::path folder_;
};

TEST(ConfigTest, ReadsTypedValuesAndKeepsDefaults) {
  const Node node = Node::Parse(
      "name: demo\nload: {concurrency: 4, rate: .5, warm: true}\nsizes: [8, 16]\n", "x.yaml");
  std::string name = "default";
  int concurrency = 1, missing = 7;
  double rate = 0;
  bool warm = false;
  std::vector<int64_t> sizes;
  node.Read("name", name);
  node.Get("load").Read("concurrency", concurrency, 1, 64);
  node.Get("load").Read("missing", missing);
  node.Get("load").Read("rate", rate, 0, 1);
  node.Get("load").Read("warm", warm);
  node.Read("sizes", sizes);
  EXPECT_EQ(name, "demo");
  EXPECT_EQ(concurrency, 4);
  EXPECT_EQ(missing, 7);
  EXPECT_DOUBLE_EQ(rate, 0.5);
  EXPECT_TRUE(warm);
  EXPECT_THAT(sizes, ElementsAre(8, 16));
  EXPECT_NO_THROW(node.RejectUnknownKeys());
}

TEST(ConfigTest, NamesThePlaceAndTheNearestKnownKey) {
  const Node node = Node::Parse("load:\n  concurency: 4\n", "experiments/x.yaml");
  int value = 0;
  node.Get("load").Read("concurrency", value);
  EXPECT_EQ(MessageOf([&] { node.RejectUnknownKeys(); }),
            "experiments/x.yaml:2:3: load.concurency: unknown key; did you mean \"concurrency\"?");
}

TEST(ConfigTest, ListsKnownKeysWhenNoneIsNear) {
  const Node node = Node::Parse("zzzzzzzz: 1\n", "x.yaml");
  int value = 0;
  node.Read("seed", value);
  node.Read("load", value);
  EXPECT_EQ(MessageOf([&] { node.RejectUnknownKeys(); }),
            "x.yaml:1:1: zzzzzzzz: unknown key; known here: load, seed");
}

TEST(ConfigTest, RejectsUnknownKeysInsideListsAndWhereNothingWasAsked) {
  const Node node = Node::Parse("faults:\n  - kind: pause\n    levl: 2\n", "x.yaml");
  std::string kind;
  int level = 0;
  for (const Node& fault : node.Get("faults").Items()) {
    fault.Read("kind", kind);
    fault.Read("level", level);
  }
  EXPECT_EQ(MessageOf([&] { node.RejectUnknownKeys(); }),
            "x.yaml:3:5: faults[0].levl: unknown key; did you mean \"level\"?");
  EXPECT_THROW(Node::Parse("a: 1", "x.yaml").RejectUnknownKeys(), ConfigError);
}

TEST(ConfigTest, LeavesMappingsThatNobodyReadToTheirOwnReader) {
  const Node node = Node::Parse("model: {anything: 1}\n", "x.yaml");
  node.Get("model");
  EXPECT_NO_THROW(node.RejectUnknownKeys());
  EXPECT_EQ(node.Get("model").Canonical(), "anything: 1\n");
}

TEST(ConfigTest, RefusesValuesOutOfRangeAndOfAnotherType) {
  const Node node =
      Node::Parse("a: 70\nb: four\nc: \"4\"\nd: yes\ne: 1e999\nf: .nan\ng:\n", "x.yaml");
  EXPECT_EQ(MessageOf([&] { node.Get("a").AsInt(1, 64); }),
            "x.yaml:1:4: a: expected a whole number from 1 to 64, found '70'");
  EXPECT_EQ(MessageOf([&] { node.Get("b").AsInt(); }),
            "x.yaml:2:4: b: expected a whole number, found 'four'");
  EXPECT_EQ(MessageOf([&] { node.Get("c").AsInt(0); }),
            "x.yaml:3:4: c: expected a whole number of at least 0, found the text '4'");
  EXPECT_EQ(MessageOf([&] { node.Get("d").AsBool(); }),
            "x.yaml:4:4: d: expected true or false, found 'yes'");
  EXPECT_EQ(MessageOf([&] { node.Get("e").AsDouble(); }),
            "x.yaml:5:4: e: expected a number, found '1e999'");
  EXPECT_THROW(node.Get("f").AsDouble(), ConfigError);
  EXPECT_THAT(MessageOf([&] { node.Get("g").AsString(); }),
              ::testing::EndsWith("g: expected text, found nothing"));
  EXPECT_EQ(MessageOf([&] { node.Get("h"); }), "x.yaml:1:1: the key \"h\" is missing");
}

TEST(ConfigTest, ChoosesAmongGivenWords) {
  const Node node = Node::Parse("mode: structual\n", "x.yaml");
  constexpr std::string_view kModes[] = {"structural", "adjacency"};
  EXPECT_EQ(MessageOf([&] { node.Get("mode").AsChoice(kModes); }),
            "x.yaml:1:7: mode: expected one of structural, adjacency, found 'structual'; did you "
            "mean \"structural\"?");
}

TEST(ConfigTest, RefusesHostileDocuments) {
  EXPECT_THAT(MessageOf([] { Node::Parse("a: &x [1]\nb: *x\n", "x.yaml"); }),
              ::testing::StartsWith("x.yaml:2:4: YAML aliases are not supported"));
  EXPECT_THAT(
      MessageOf([] { Node::Parse(std::string(100, '[') + std::string(100, ']'), "x.yaml"); }),
      ::testing::HasSubstr("nested deeper"));
  EXPECT_THAT(MessageOf([] { Node::Parse(std::string(1 << 20, '['), "x.yaml"); }),
              ::testing::HasSubstr("x.yaml"));
  EXPECT_THAT(MessageOf([] { Node::Parse(std::string((4 << 20) + 1, 'a'), "x.yaml"); }),
              ::testing::HasSubstr("larger than 4 MiB"));
  std::string many = "[";
  for (int i = 0; i < 200'001; ++i) many += "1,";
  EXPECT_THAT(MessageOf([&] { Node::Parse(many + "]", "x.yaml"); }),
              ::testing::HasSubstr("more than 200000 values"));
  EXPECT_THAT(MessageOf([] { Node::Parse("a: 1\na: 2\n", "x.yaml"); }),
              "x.yaml:2:1: 'a' stands twice in this mapping (first in line 1)");
  EXPECT_THAT(MessageOf([] { Node::Parse("a: !!binary x\n", "x.yaml"); }),
              ::testing::HasSubstr("tags"));
  EXPECT_THAT(MessageOf([] { Node::Parse("a: [1, 2\n", "x.yaml"); }),
              ::testing::StartsWith("x.yaml:"));
  EXPECT_THAT(MessageOf([] { Node::Parse("? [a]\n: 1\n", "x.yaml"); }),
              ::testing::HasSubstr("a key must be plain text"));
  EXPECT_THAT(MessageOf([] { Node::Parse("a: 1\n---\nb: 2\n", "x.yaml"); }),
              ::testing::HasSubstr("more than one"));
}

TEST(ConfigTest, SurvivesRandomBytes) {
  uint64_t state = 42;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += "{}[]:-,&*!|>'\"%@`#\n ab01\t?\\\x80\xff"[(state >> 33) % 29];
    }
    try {
      Node::Parse(text, "x.yaml").Canonical();
    } catch (const ConfigError&) {
    }
  }
}

TEST(ConfigTest, OverridesByDottedPath) {
  const std::vector<std::string> overrides = {"load.concurrency=8", "faults.1.kind=pause",
                                              "new.key=[1, 2]"};
  const Node node =
      Node::Parse("load: {concurrency: 4}\nfaults: [{kind: a}, {kind: b}]\n", "x.yaml", overrides);
  EXPECT_EQ(
      node.Canonical(),
      "faults:\n  - kind: a\n  - kind: pause\nload:\n  concurrency: 8\nnew:\n  key: [1, 2]\n");
  EXPECT_EQ(
      MessageOf([&] { node.Get("load").Get("concurrency").AsInt(1, 4); }),
      "--set load.concurrency=8: load.concurrency: expected a whole number from 1 to 4, found '8'");
}

TEST(ConfigTest, RefusesOverridesThatFitNowhere) {
  const auto parse = [](std::string override_text) {
    const std::vector<std::string> overrides = {std::move(override_text)};
    Node::Parse("a: 1\nb: [1, 2]\n", "x.yaml", overrides);
  };
  EXPECT_EQ(MessageOf([&] { parse("b.2=3"); }),
            "--set b.2=3: '2' is not an index into a list of 2");
  EXPECT_EQ(MessageOf([&] { parse("a.c=3"); }), "--set a.c=3: 'c' lies below a plain value");
  EXPECT_THAT(MessageOf([&] { parse("a"); }), ::testing::HasSubstr("expected KEY.KEY=VALUE"));
}

TEST(ConfigTest, CanonicalTextIsEqualForEqualConfigurations) {
  const std::string one = "b: 'text'\na: {y: 2, x: \"1\"}\n";
  const std::string two = "a:\n  x: '1'\n  y: 2\nb: text\n";
  EXPECT_EQ(Node::Parse(one, "x").Canonical(), Node::Parse(two, "y").Canonical());
  EXPECT_EQ(Node::Parse(one, "x").Canonical(), "a:\n  x: \"1\"\n  y: 2\nb: text\n");
}

TEST(ConfigTest, EmittedYamlReadsBackTheSame) {
  const std::string yaml =
      "z: [[1, 2], [], {}]\nlist:\n  - a: 1\n    b: [x, 'true']\n  - - deep\n    - {k: "
      "\"tab\\there: #no\"}\n"
      "e: ''\nn: ~\n'1': \"- x\"\nu: \"\\u00e9\"\n";
  const Node node = Node::Parse(yaml, "x");
  const std::string emitted = node.ToYaml();
  EXPECT_EQ(Node::Parse(emitted, "y").ToYaml(), emitted);
  EXPECT_EQ(Node::Parse(emitted, "y").Canonical(), node.Canonical());
  EXPECT_TRUE(emitted.starts_with("z:\n")) << emitted;
}

TEST_F(IncludeTest, LaysKeysUponTheIncludedFile) {
  Write("parts/service.yaml", "use: size.yaml\nranks: 2\n");
  Write("parts/size.yaml", "model: {width: 64, layers: 2}\nseed: 1\n");
  const fs::path top =
      Write("top.yaml", "workload:\n  use: parts/service.yaml\n  model: {layers: 4}\n");
  EXPECT_EQ(Node::Load(top).ToYaml(),
            "workload:\n  model:\n    width: 64\n    layers: 4\n  seed: 1\n  ranks: 2\n");
  const std::vector<std::string> overrides = {"workload.model.width=8"};
  EXPECT_EQ(Node::Load(top, overrides).Get("workload").Get("model").Get("width").AsInt(), 8);
}

TEST_F(IncludeTest, PathsAreRelativeToTheFileThatNamesThem) {
  const fs::path part = Write("parts/service.yaml", "words: words.model\nroot: /words\n");
  const fs::path top = Write("top.yaml", "workload: {use: parts/service.yaml}\n");
  const Node service = Node::Load(top).Get("workload");
  EXPECT_EQ(service.Get("words").AsPath(), part.parent_path() / "words.model");
  EXPECT_EQ(service.Get("root").AsPath(), "/words");
  const std::vector<std::string> overrides = {"workload.words=a/b"};
  EXPECT_EQ(Node::Load(top, overrides).Get("workload").Get("words").AsPath(), "a/b");
}

TEST_F(IncludeTest, NamesTheIncludedFileInErrors) {
  const fs::path part = Write("part.yaml", "width: wide\n");
  const fs::path top = Write("top.yaml", "model: {use: part.yaml}\n");
  EXPECT_EQ(MessageOf([&] { Node::Load(top).Get("model").Get("width").AsInt(); }),
            part.string() + ":1:8: model.width: expected a whole number, found 'wide'");
}

TEST_F(IncludeTest, RefusesCyclesMissingFilesAndLists) {
  Write("a.yaml", "use: b.yaml\n");
  Write("b.yaml", "use: a.yaml\n");
  EXPECT_THAT(MessageOf([&] { Node::Load(Write("top.yaml", "use: a.yaml\n")); }),
              ::testing::HasSubstr("includes itself"));
  EXPECT_THAT(MessageOf([&] { Node::Load(Write("top.yaml", "use: none.yaml\n")); }),
              ::testing::HasSubstr(":1:6: use: no file 'none.yaml'"));
  Write("list.yaml", "[1]\n");
  EXPECT_THAT(MessageOf([&] { Node::Load(Write("top.yaml", "use: list.yaml\n")); }),
              ::testing::HasSubstr("is not a mapping"));
  EXPECT_THAT(MessageOf([&] { Node::Load(folder_ / "absent.yaml"); }),
              ::testing::HasSubstr("does not exist"));
  EXPECT_THAT(MessageOf([&] { Node::Load(folder_); }), ::testing::HasSubstr("is not a file"));
}

TEST_F(IncludeTest, BoundsWhatManyIncludesTogetherMayHold) {
  Write("big.yaml", "text: " + std::string(1 << 20, 'a') + "\n");
  std::string top;
  for (int i = 0; i < 5; ++i) top += "k" + std::to_string(i) + ": {use: big.yaml}\n";
  EXPECT_THAT(MessageOf([&] { Node::Load(Write("top.yaml", top)); }),
              ::testing::HasSubstr("larger than 4 MiB"));
}

TEST(ConfigTest, AnEmptyFileIsNamed) {
  for (const char* text : {"", "# nothing but a comment\n"}) {
    const Node node = Node::Parse(text, "empty.yaml");
    EXPECT_EQ(MessageOf([&] { node.Find("name"); }).rfind("empty.yaml:1:1: expected a mapping", 0),
              0u);
  }
}

}  // namespace
}  // namespace teller::config
