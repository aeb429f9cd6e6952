#include "src/dataset/vocabulary_file.h"

#include <gmock/gmock.h>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using ::testing::HasSubstr;

VocabularyFile Example() {
  VocabularyFile file;
  file.options = {.size = 5, .target_cut = 0.75};
  const tpe::Sequence sequence{{0, 0}, {1, 1}, {1, 1}};
  file.vocabulary = tpe::Train(std::vector<tpe::Sequence>{sequence, sequence},
                               std::vector<std::string>{"b", "a \"quoted\" <x>"}, file.options);
  file.sequences = 2;
  file.inputs = {{"slices.h5", "aa"}};
  return file;
}

class VocabularyFileTest : public testing::Test {
 protected:
  std::string MessageAfter(const std::string& from, const std::string& to) {
    WriteVocabulary(folder_ / "v.json", Example(), /*force=*/true);
    std::string text = ReadFile(folder_ / "v.json");
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    WriteFileAtomically(folder_ / "v.json", text, /*force=*/true);
    try {
      ReadVocabulary(folder_ / "v.json");
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(VocabularyFileTest, ReadsWhatWasWritten) {
  WriteVocabulary(folder_ / "v.json", Example());
  const VocabularyFile found = ReadVocabulary(folder_ / "v.json");
  EXPECT_EQ(found.vocabulary, Example().vocabulary);
  EXPECT_EQ(found.vocabulary.entries.size(), 5u);  // two symbols, '(unknown)', two merges
  EXPECT_EQ(found.options.size, 5u);
  EXPECT_EQ(found.options.target_cut, 0.75);
  EXPECT_EQ(found.sequences, 2u);
  EXPECT_EQ(found.vocabulary.corpus_atoms, 6u);
  EXPECT_EQ(found.inputs, Example().inputs);
  EXPECT_THROW(WriteVocabulary(folder_ / "v.json", Example()), ConfigError);
}

TEST_F(VocabularyFileTest, RefusesAnotherVersionAndChangedContent) {
  EXPECT_THAT(MessageAfter("\"encoder_version\": 1", "\"encoder_version\": 2"),
              HasSubstr("encoder version 2, this is 1"));
  EXPECT_THAT(MessageAfter("\"schema_version\": \"1.0\"", "\"schema_version\": \"2.0\""),
              HasSubstr("schema version 2.0"));
  EXPECT_THAT(MessageAfter("\"b\"", "\"c\""), HasSubstr("hash does not fit"));
  EXPECT_THAT(MessageAfter("structural", "sideways"), HasSubstr("sideways"));
  EXPECT_THAT(MessageAfter("\"merges\": [", "\"merges\": [[9,9,0,1],"),
              HasSubstr("earlier entries"));
  EXPECT_THAT(MessageAfter("{", "["), HasSubstr("expected a vocabulary"));
  EXPECT_THAT(MessageAfter("\"corpus\"", "\"body\""), HasSubstr("corpus"));
  EXPECT_THAT(MessageAfter("\"schema_name\": \"vocabulary\"", "\"schema_name\": \"steps\""),
              HasSubstr("no vocabulary"));
}

TEST_F(VocabularyFileTest, HashDependsOnContentOnly) {
  VocabularyFile a = Example(), b = Example();
  b.inputs.clear();
  EXPECT_EQ(VocabularyHash(a.vocabulary), VocabularyHash(b.vocabulary));
  b.vocabulary.mode = tpe::Mode::kAdjacency;
  EXPECT_NE(VocabularyHash(a.vocabulary), VocabularyHash(b.vocabulary));
}

}  // namespace
}  // namespace teller::dataset
