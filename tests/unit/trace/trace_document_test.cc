// docs/schema/trace.md, the constants of trace_schema.h and a written file say the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "src/h5/file.h"
#include "src/trace/trace_file.h"
#include "src/trace/trace_schema.h"
#include "tests/support/schema_document.h"
#include "tests/support/temporary_folder.h"

namespace teller::trace {
namespace {

using testing_support::DocumentedColumn;

std::vector<DocumentedColumn> Constants() {
  std::vector<DocumentedColumn> columns;
  for (const h5::ColumnSpec& column : kTraceColumns)
    columns.push_back({column.path, column.type, column.unit});
  return columns;
}

// One process with two ranges of 3 ms and one of 1 ms.
void WriteExample(const std::filesystem::path& path) {
  TraceWriter writer(path, {});
  const StringId long_range = writer.Intern("long"), short_range = writer.Intern("short");
  writer.AddProcess({.rank = RankId{1}, .pid = 42});
  EventTable events;
  events.Append({.begin_ns = 0, .end_ns = 3'000'000, .name = long_range});
  events.Append({.begin_ns = 1'000'000, .end_ns = 2'000'000, .name = short_range});
  events.Append({.begin_ns = 4'000'000, .end_ns = 7'000'000, .name = long_range});
  writer.Append(0, events);
  writer.Close();
}

TEST(TraceDocumentTest, ListsTheColumnsOfTheSchemaHeader) {
  EXPECT_EQ(testing_support::DocumentedColumns("docs/schema/trace.md"), Constants());
}

TEST(TraceDocumentTest, AWrittenFileHasExactlyTheseColumns) {
  const testing_support::TemporaryFolder folder;
  WriteExample(folder / "t.h5");
  const h5::File file = h5::File::Open(folder / "t.h5");
  std::size_t columns_of_processes = 0;
  for (const h5::ColumnSpec& column : kTraceColumns) {
    std::string path = std::string(column.path).substr(1);
    if (path.starts_with("processes/N/")) {
      path.replace(std::string("processes/").size(), 1, "0");
      ++columns_of_processes;
    }
    EXPECT_EQ(file.root().OpenColumn(path).type_name(), column.type) << path;
  }
  EXPECT_EQ(file.root().OpenGroup("processes/0").Children().size(), columns_of_processes);
  EXPECT_THAT(file.root().Children(),
              testing::ElementsAre("clock", "logs", "processes", "stats", "strings"));
}

TEST(TraceDocumentTest, TheH5pyExampleReadsAFile) {
  const std::string python = testing_support::PythonWithH5py();
  if (python.empty())
    GTEST_SKIP() << "no Python with h5py: run scripts/setup.sh or set TELLER_VENV";
  const testing_support::TemporaryFolder folder;
  WriteExample(folder / "t.h5");
  std::ofstream(folder / "example.py")
      << testing_support::CodeBlock("docs/schema/trace.md", "python");
  EXPECT_EQ(testing_support::OutputOf(python + " " + (folder / "example.py").string() + " " +
                                      (folder / "t.h5").string()),
            "process 0: rank 1, pid 42, 3 events\n"
            "  long: 6.000 ms\n"
            "  short: 1.000 ms\n");
}

}  // namespace
}  // namespace teller::trace
