#include "src/h5/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/h5/schema.h"
#include "tests/support/temporary_folder.h"

namespace teller::h5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The message of the Error that `call` throws; empty where it throws none.
template <typename Call>
std::string MessageOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

class H5FileTest : public testing::Test {
 protected:
  std::filesystem::path Made() {
    File file = File::Create(folder_ / "a.h5");
    WriteSchema(file.root(), {"thing", 2, 1}, "run7");
    Group group = file.root().CreateGroup("g");
    group.Write("x", std::vector<int64_t>{1, -2, 3});
    group.Write("half", std::vector<float>{0.5f});
    group.Write("none", std::vector<uint16_t>{});
    group.WriteStrings("names", std::vector<std::string>{"a", "", "\xC3\xA4"});
    group.SetAttribute("text", std::string_view("value"));
    group.SetAttribute("list", std::vector<std::string>{"p", "q"});
    group.SetAttribute("empty", std::vector<std::string>{});
    group.SetAttribute("number", int64_t{-5});
    group.SetAttribute("number", int64_t{6});
    group.SetAttribute("ratio", 0.25);
    group = Group({}, "");
    file.Close();
    return folder_ / "a.h5";
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(H5FileTest, ReadsBackColumnsAndAttributes) {
  const File file = File::Open(Made());
  const Group group = file.root().OpenGroup("g");
  EXPECT_THAT(group.Read<int64_t>("x"), ElementsAre(1, -2, 3));
  EXPECT_THAT(group.OpenColumn("x").Read<int64_t>(1, 1), ElementsAre(-2));
  EXPECT_THAT(group.Read<float>("half"), ElementsAre(0.5f));
  EXPECT_THAT(group.Read<uint16_t>("none"), ElementsAre());
  EXPECT_THAT(group.ReadStrings("names"), ElementsAre("a", "", "\xC3\xA4"));
  EXPECT_EQ(group.GetString("text"), "value");
  EXPECT_THAT(group.GetStrings("list"), ElementsAre("p", "q"));
  EXPECT_THAT(group.GetStrings("empty"), ElementsAre());
  EXPECT_EQ(group.GetInt("number"), 6);
  EXPECT_EQ(group.GetDouble("ratio"), 0.25);
  EXPECT_THAT(group.Children(), ElementsAre("half", "names", "none", "x"));
  EXPECT_EQ(file.root().GetString("run_id"), "run7");
}

TEST_F(H5FileTest, ListsNumbersInNumericOrder) {
  File file = File::Create(folder_ / "n.h5");
  for (const char* name : {"10", "9", "b", "1"}) file.root().CreateGroup(name);
  EXPECT_THAT(file.root().Children(), ElementsAre("1", "9", "10", "b"));
}

TEST_F(H5FileTest, NamesTheTypeItFoundAndExpected) {
  const File file = File::Open(Made());
  EXPECT_THAT(MessageOf([&] { file.root().OpenGroup("g").Read<int64_t>("half"); }),
              HasSubstr("a.h5:/g/half: expected int64[N], found float32[N]"));
  EXPECT_THAT(MessageOf([&] { file.root().OpenGroup("g").Read<uint64_t>("x"); }),
              HasSubstr("expected uint64[N], found int64[N]"));
  EXPECT_THAT(MessageOf([&] { file.root().OpenGroup("g").ReadStrings("x"); }),
              HasSubstr("expected string[N]"));
}

TEST_F(H5FileTest, RefusesWhatIsMissingOrTooShort) {
  const File file = File::Open(Made());
  const Group group = file.root().OpenGroup("g");
  EXPECT_THROW(group.OpenColumn("y"), DataError);
  EXPECT_THROW(group.OpenGroup("y"), DataError);
  EXPECT_THROW(group.GetInt("y"), DataError);
  EXPECT_THROW(group.GetInt("text"), DataError);
  EXPECT_THROW(group.GetString("number"), DataError);
  EXPECT_THROW(group.Read<int64_t>("x", 4), DataError);
  EXPECT_THROW(group.OpenColumn("x").Read<int64_t>(2, 2), DataError);
  EXPECT_THROW(group.OpenColumn("x").Read<int64_t>(1, UINT64_MAX), DataError);
}

TEST_F(H5FileTest, RefusesOtherSchemasAndMajorVersions) {
  const File file = File::Open(Made());
  EXPECT_NO_THROW(CheckSchema(file.root(), {"thing", 2, 0}));
  EXPECT_THAT(MessageOf([&] {
                CheckSchema(file.root(), {"thing", 1, 0});
              }),
              HasSubstr("has version '2.1'"));
  EXPECT_THAT(MessageOf([&] {
                CheckSchema(file.root(), {"other", 2, 0});
              }),
              HasSubstr("found 'thing'"));
}

TEST_F(H5FileTest, RefusesFilesThatAreNotHdf5) {
  EXPECT_THROW(File::Open(folder_ / "none.h5"), DataError);
  EXPECT_THROW(File::Open(folder_.path()), DataError);
  std::ofstream(folder_ / "empty.h5");
  EXPECT_THAT(MessageOf([&] { File::Open(folder_ / "empty.h5"); }), HasSubstr("is empty"));
  std::ofstream(folder_ / "text.h5") << "not an HDF5 file";
  EXPECT_THAT(MessageOf([&] { File::Open(folder_ / "text.h5"); }),
              HasSubstr("is not an HDF5 file"));
}

TEST_F(H5FileTest, RefusesATruncatedFileInOneLine) {
  const auto path = Made();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const std::string message = MessageOf([&] { File::Open(path); });
  EXPECT_THAT(message, HasSubstr("truncated"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST_F(H5FileTest, DoesNotOverwrite) {
  const auto path = Made();
  EXPECT_THROW(File::Create(path), DeviceError);
}

TEST_F(H5FileTest, ChecksClaimedRowsBeforeAllocating) {
  {
    File file = File::Create(folder_ / "bomb.h5");
    file.root().CreateColumn("x", Type::kInt64).Append<int64_t>(std::vector<int64_t>{1});
    // 2^40 rows of fill values: extends the data set without storing anything.
    file.root().CreateColumn("y", Type::kInt64).ExtendTo(uint64_t{1} << 40);
    file.Close();
  }
  const File file = File::Open(folder_ / "bomb.h5");
  EXPECT_THAT(MessageOf([&] { file.root().Read<int64_t>("y"); }),
              HasSubstr("claims 1099511627776 rows"));
}

TEST_F(H5FileTest, AppendsAcrossChunks) {
  std::vector<uint32_t> all;
  {
    File file = File::Create(folder_ / "c.h5");
    Column column = file.root().CreateColumn("x", Type::kUint32, {.chunk_rows = 16, .deflate = 0});
    for (uint32_t size : {1u, 15u, 17u, 64u, 3u}) {
      std::vector<uint32_t> part;
      for (uint32_t i = 0; i < size; ++i) part.push_back(static_cast<uint32_t>(all.size() + i) * 7);
      column.Append<uint32_t>(part);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  EXPECT_EQ(File::Open(folder_ / "c.h5").root().Read<uint32_t>("x"), all);
}

}  // namespace
}  // namespace teller::h5
