#include "src/dataset/label_table.h"

#include <utility>

#include "src/core/error.h"

namespace teller::dataset {
namespace {

struct LabelCounts {
  uint32_t recorded_count = 0, hit_count = 0;
};
struct LabelRow : StepLabel, LabelCounts {};
struct RecordedRow {
  int64_t recorded_ns = 0;
};
struct HitRow {
  NodeId node{};
};

constexpr auto kLabelFields = [](auto visit) {
  visit("status", &LabelRow::status);
  visit("reasons", &LabelRow::reasons);
  visit("stretch", &LabelRow::stretch);
  visit("plan_id", &LabelRow::plan_id);
  visit("kind", &LabelRow::kind);
  visit("family", &LabelRow::family);
  visit("view", &LabelRow::view);
  visit("level", &LabelRow::level);
  visit("culprit_rank", &LabelRow::culprit_rank);
  visit("culprit_layer", &LabelRow::culprit_layer);
  visit("culprit_symbol", &LabelRow::culprit_symbol);
  visit("recorded_count", &LabelRow::recorded_count);
  visit("hit_count", &LabelRow::hit_count);
};
constexpr auto kRecordedFields = [](auto visit) {
  visit("recorded_ns", &RecordedRow::recorded_ns);
};
constexpr auto kHitFields = [](auto visit) { visit("node", &HitRow::node); };

}  // namespace

void WriteLabels(h5::Group& root, const std::vector<const StepLabel*>& labels,
                 StringInterner& strings) {
  std::vector<LabelRow> rows;
  std::vector<RecordedRow> recorded;
  std::vector<HitRow> hits;
  for (const StepLabel* label : labels) {
    rows.push_back({*label,
                    {static_cast<uint32_t>(label->recorded_ns.size()),
                     static_cast<uint32_t>(label->hit_nodes.size())}});
    for (const int64_t recorded_ns : label->recorded_ns) recorded.push_back({recorded_ns});
    for (const NodeId node : label->hit_nodes) hits.push_back({node});
  }
  WriteTable(root, "labels", PointersTo(rows), strings, kLabelFields);
  WriteTable(root, "recorded", PointersTo(recorded), strings, kRecordedFields);
  WriteTable(root, "hits", PointersTo(hits), strings, kHitFields);
}

std::vector<StepLabel> ReadLabels(const TableReader& tables, uint64_t steps) {
  auto recorded = tables.Deal<RecordedRow>("recorded", kRecordedFields);
  auto hits = tables.Deal<HitRow>("hits", kHitFields);
  std::vector<StepLabel> labels;
  for (LabelRow& row : tables.Read<LabelRow>("labels", kLabelFields, steps)) {
    StepLabel& label = labels.emplace_back(std::move(static_cast<StepLabel&>(row)));
    if (label.status > LabelStatus::kGrey || label.view > View::kVertical) {
      throw DataError("labels: unknown label code in row " + std::to_string(labels.size() - 1) +
                      "; the file is damaged");
    }
    for (const RecordedRow& item : recorded.Take(row.recorded_count))
      label.recorded_ns.push_back(item.recorded_ns);
    for (const HitRow& hit : hits.Take(row.hit_count)) label.hit_nodes.push_back(hit.node);
  }
  recorded.ExpectEmpty();
  hits.ExpectEmpty();
  return labels;
}

}  // namespace teller::dataset
