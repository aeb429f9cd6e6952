#include "src/cli/info_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/cli/trace_info.h"
#include "src/core/error.h"
#include "src/core/text_table.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/steps_schema.h"
#include "src/h5/child.h"
#include "src/h5/file.h"
#include "src/h5/schema.h"
#include "src/trace/trace_schema.h"

namespace teller::cli {
namespace {

using nlohmann::json;

// The child's answer: what to print and what a check found.
struct Report {
  std::string text;
  std::vector<std::string> problems;
};

std::string Dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Report ReportTrace(const InfoOptions& options) {
  TraceSummary summary = SummarizeTrace(options.file);
  return {options.json ? Dump(ToJson(summary)) : ToText(summary), std::move(summary.problems)};
}

struct ColumnRow {
  std::string path, type;
  uint64_t rows;
};

void ListColumns(const h5::Group& group, const std::string& prefix, int depth,
                 std::vector<ColumnRow>& rows) {
  if (depth > 8) throw DataError(group.where() + ": groups are nested more than 8 deep");
  for (const std::string& name : group.Children()) {
    const std::string path = prefix + "/" + name;
    if (group.IsGroup(name)) {
      ListColumns(group.OpenGroup(name), path, depth + 1, rows);
    } else {
      const h5::Column column = group.OpenColumn(name);
      rows.push_back({path, column.type_name(), column.rows()});
    }
  }
}

// Any other file of ours: its schema and its columns.
Report ReportColumns(const InfoOptions& options) {
  const h5::File file = h5::File::Open(options.file);
  const std::string schema = h5::SchemaName(file.root());
  if (schema.empty())
    throw DataError(fmt::format("'{}' is HDF5, but not a file of ours: it has no schema_name",
                                options.file.string()));
  if (options.check && schema == dataset::kStepsSchema.name) dataset::ReadSteps(options.file);
  std::vector<ColumnRow> rows;
  ListColumns(file.root(), "", 0, rows);
  if (options.json) {
    json columns = json::object();
    for (const ColumnRow& row : rows) columns[row.path] = {{"type", row.type}, {"rows", row.rows}};
    return {Dump({{"schema_name", schema},
                  {"schema_version", file.root().GetString("schema_version")},
                  {"created_by", file.root().GetString("created_by")},
                  {"columns", std::move(columns)}}),
            {}};
  }
  TextTable table({"column", "type", "rows"});
  for (const ColumnRow& row : rows) table.AddRow({row.path, row.type, std::to_string(row.rows)});
  return {fmt::format("{} {}, by {}\n\n{}", schema, file.root().GetString("schema_version"),
                      file.root().GetString("created_by"), table.ToText()),
          {}};
}

Report MakeReport(const InfoOptions& options) {
  const bool is_trace =
      h5::SchemaName(h5::File::Open(options.file).root()) == trace::kTraceSchema.name;
  return is_trace ? ReportTrace(options) : ReportColumns(options);
}

std::string Pack(const Report& report) {
  return Dump({{"text", report.text}, {"problems", report.problems}});
}

}  // namespace

void RunInfo(const InfoOptions& options) {
  const std::string answer =
      h5::RunInChild(options.file.string(), h5::ChildLimits::ForFile(options.file),
                     [&] { return Pack(MakeReport(options)); });
  const json report = json::parse(answer);
  std::fputs(report["text"].get<std::string>().c_str(), stdout);
  const auto problems = report["problems"].get<std::vector<std::string>>();
  if (!options.check || problems.empty()) return;
  throw CheckError(fmt::format("{}: {}", options.file.string(), fmt::join(problems, "; ")));
}

void AddInfoCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "What a trace or another .h5 file of ours holds");
  command->add_option("FILE", options->file, "trace.h5, steps.h5, ...")->required();
  command->add_flag("--check", options->check,
                    "Read everything and exit with 3 where something does not hold");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->callback([options, &exit_code] {
    RunInfo(*options);
    exit_code = 0;
  });
}

}  // namespace teller::cli
