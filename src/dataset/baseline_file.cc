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
using localize::TailedStat;

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
  float ratio_median = 0, ratio_spread = 0, ratio_tail = 0;
  uint32_t ratio_count = 0;
  float typical_median = 0, typical_spread = 0, typical_tail = 0;
  uint32_t typical_count = 0;
  float lower_median = 0, lower_spread = 0, lower_tail = 0;
  uint32_t lower_count = 0;
  float contrast_median = 0, contrast_spread = 0, contrast_tail = 0;
  uint32_t contrast_count = 0;
  float node_tail = 0;
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
  visit("ratio_tail", &FlatOperatorRow::ratio_tail);
  visit("ratio_count", &FlatOperatorRow::ratio_count);
  visit("typical_median", &FlatOperatorRow::typical_median);
  visit("typical_spread", &FlatOperatorRow::typical_spread);
  visit("typical_tail", &FlatOperatorRow::typical_tail);
  visit("typical_count", &FlatOperatorRow::typical_count);
  visit("lower_median", &FlatOperatorRow::lower_median);
  visit("lower_spread", &FlatOperatorRow::lower_spread);
  visit("lower_tail", &FlatOperatorRow::lower_tail);
  visit("lower_count", &FlatOperatorRow::lower_count);
  visit("contrast_median", &FlatOperatorRow::contrast_median);
  visit("contrast_spread", &FlatOperatorRow::contrast_spread);
  visit("contrast_tail", &FlatOperatorRow::contrast_tail);
  visit("contrast_count", &FlatOperatorRow::contrast_count);
  visit("node_tail", &FlatOperatorRow::node_tail);
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
    FlatOperatorRow& out = flat.emplace_back();
    out.op = row.op;
    out.measure = row.measure;
    const auto put = [](const TailedStat& stat, float& median, float& spread, float& tail,
                        uint32_t& count) {
      median = stat.median;
      spread = stat.spread;
      tail = stat.tail;
      count = stat.count;
    };
    put(row.ratio, out.ratio_median, out.ratio_spread, out.ratio_tail, out.ratio_count);
    put(row.typical, out.typical_median, out.typical_spread, out.typical_tail, out.typical_count);
    put(row.lower, out.lower_median, out.lower_spread, out.lower_tail, out.lower_count);
    put(row.contrast, out.contrast_median, out.contrast_spread, out.contrast_tail,
        out.contrast_count);
    out.node_tail = row.node_tail;
  }
  return flat;
}

localize::BaselineRow Unflatten(const FlatRow& row) {
  return {{row.op, row.measure, row.occurrence, row.phase, row.bucket},
          RobustStat{row.median, row.spread, row.count}};
}

localize::OperatorRow Unflatten(const FlatOperatorRow& row) {
  const auto stat = [](float median, float spread, float tail, uint32_t count) {
    return TailedStat{RobustStat{median, spread, count}, tail};
  };
  return {row.op,
          row.measure,
          stat(row.ratio_median, row.ratio_spread, row.ratio_tail, row.ratio_count),
          stat(row.typical_median, row.typical_spread, row.typical_tail, row.typical_count),
          stat(row.lower_median, row.lower_spread, row.lower_tail, row.lower_count),
          stat(row.contrast_median, row.contrast_spread, row.contrast_tail, row.contrast_count),
          row.node_tail};
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
