#include "src/dataset/baseline_file.h"

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/dataset/baseline_schema.h"
#include "src/dataset/number_table.h"
#include "src/dataset/record_table.h"

namespace teller::dataset {
namespace {

using localize::BaselineOperator;
using localize::RobustStat;

// Flat images of the rows: a column is a member.
struct FlatRow {
  int32_t op = 0;
  localize::Measure measure{};
  int32_t occurrence = 0, phase = 0, bucket = 0;
  float median = 0, spread = 0;
  uint32_t count = 0;
};
struct FlatOperatorRow {
  int32_t op = 0;
  localize::Measure measure{};
  float ratio_median = 0, ratio_spread = 0;
  uint32_t ratio_count = 0;
  float typical_median = 0, typical_spread = 0;
  uint32_t typical_count = 0;
  float contrast_median = 0, contrast_spread = 0;
  uint32_t contrast_count = 0;
};

constexpr auto kOperatorFields = [](auto visit) {
  visit("symbol", &BaselineOperator::symbol);
  visit("layer", &BaselineOperator::layer);
};
constexpr auto kRowFields = [](auto visit) {
  visit("op", &FlatRow::op);
  visit("measure", &FlatRow::measure);
  visit("occurrence", &FlatRow::occurrence);
  visit("phase", &FlatRow::phase);
  visit("bucket", &FlatRow::bucket);
  visit("median", &FlatRow::median);
  visit("spread", &FlatRow::spread);
  visit("count", &FlatRow::count);
};
constexpr auto kOperatorRowFields = [](auto visit) {
  visit("op", &FlatOperatorRow::op);
  visit("measure", &FlatOperatorRow::measure);
  visit("ratio_median", &FlatOperatorRow::ratio_median);
  visit("ratio_spread", &FlatOperatorRow::ratio_spread);
  visit("ratio_count", &FlatOperatorRow::ratio_count);
  visit("typical_median", &FlatOperatorRow::typical_median);
  visit("typical_spread", &FlatOperatorRow::typical_spread);
  visit("typical_count", &FlatOperatorRow::typical_count);
  visit("contrast_median", &FlatOperatorRow::contrast_median);
  visit("contrast_spread", &FlatOperatorRow::contrast_spread);
  visit("contrast_count", &FlatOperatorRow::contrast_count);
};

std::vector<FlatRow> Flatten(const std::vector<localize::BaselineRow>& rows) {
  std::vector<FlatRow> flat;
  for (const auto& [key, stat] : rows) {
    flat.push_back({key.op, key.measure, key.occurrence, key.phase, key.bucket, stat.median,
                    stat.spread, stat.count});
  }
  return flat;
}

std::vector<FlatOperatorRow> Flatten(const std::vector<localize::OperatorRow>& rows) {
  std::vector<FlatOperatorRow> flat;
  for (const localize::OperatorRow& row : rows) {
    flat.push_back({row.op, row.measure, row.ratio.median, row.ratio.spread, row.ratio.count,
                    row.typical.median, row.typical.spread, row.typical.count, row.contrast.median,
                    row.contrast.spread, row.contrast.count});
  }
  return flat;
}

localize::BaselineRow Unflatten(const FlatRow& row) {
  return {{row.op, row.measure, row.occurrence, row.phase, row.bucket},
          RobustStat{row.median, row.spread, row.count}};
}

localize::OperatorRow Unflatten(const FlatOperatorRow& row) {
  return {row.op, row.measure, RobustStat{row.ratio_median, row.ratio_spread, row.ratio_count},
          RobustStat{row.typical_median, row.typical_spread, row.typical_count},
          RobustStat{row.contrast_median, row.contrast_spread, row.contrast_count}};
}

}  // namespace

void WriteBaseline(const std::filesystem::path& path, const BaselineFile& baseline, bool force) {
  AtomicFile destination(path, force);
  h5::File file = h5::File::Create(destination.path());
  h5::Group& root = file.root();
  h5::WriteSchema(root, kBaselineSchema, "");
  StringInterner strings;
  const localize::Baseline& of = baseline.baseline;
  const std::vector<FlatRow> rows = Flatten(of.rows);
  const std::vector<FlatOperatorRow> operator_rows = Flatten(of.operator_rows);
  WriteTable(root, "operators", PointersTo(of.operators), strings, kOperatorFields);
  WriteTable(root, "rows", PointersTo(rows), strings, kRowFields);
  WriteTable(root, "operator_rows", PointersTo(operator_rows), strings, kOperatorRowFields);
  root.Write("channel_scale", of.channel_scale, kTableOptions);
  root.Write("healthy_maxima", of.healthy_maxima, kTableOptions);
  WriteInputs(root, baseline.inputs, strings);
  root.WriteStrings("strings", strings.Strings());
  file.Close();
  destination.Commit();
}

BaselineFile ReadBaseline(const std::filesystem::path& path) {
  const h5::File file = h5::File::Open(path);
  const h5::Group& root = file.root();
  h5::CheckSchema(root, kBaselineSchema);
  const TableReader tables(root);
  BaselineFile found;
  localize::Baseline& of = found.baseline;
  of.operators = tables.Read<BaselineOperator>("operators", kOperatorFields);
  for (const FlatRow& row : tables.Read<FlatRow>("rows", kRowFields)) {
    of.rows.push_back(Unflatten(row));
  }
  for (const auto& row : tables.Read<FlatOperatorRow>("operator_rows", kOperatorRowFields)) {
    of.operator_rows.push_back(Unflatten(row));
  }
  of.channel_scale = root.Read<float>("channel_scale");
  of.healthy_maxima = root.Read<float>("healthy_maxima");
  found.inputs = ReadInputs(tables);
  try {
    localize::CheckBaseline(of);
  } catch (const DataError& error) {
    throw DataError(path.string() + ": " + error.what() + "; the file is damaged");
  }
  return found;
}

}  // namespace teller::dataset
