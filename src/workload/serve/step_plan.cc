#include "src/workload/serve/step_plan.h"

#include <cstdio>

#include "src/core/error.h"

namespace teller::serve {
namespace {

constexpr int32_t kMagic = 0x4e4c5054;  // 'TPLN'
constexpr int32_t kContext = 1, kSamples = 2;

/// Reads words in order; past the end is an error.
class WordReader {
 public:
  explicit WordReader(std::span<const int32_t> words) : words_(words) {}
  int32_t Next() { return Take(1)[0]; }
  std::vector<int32_t> Vector() {
    const auto taken = Take(Next());
    return {taken.begin(), taken.end()};
  }
  bool AtEnd() const { return words_.empty(); }

 private:
  std::span<const int32_t> Take(int32_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > words_.size()) {
      throw DeviceError("a step plan from rank 0 is cut short; do all ranks run the same program?");
    }
    const auto taken = words_.first(static_cast<std::size_t>(count));
    words_ = words_.subspan(static_cast<std::size_t>(count));
    return taken;
  }

  std::span<const int32_t> words_;
};

void AppendVector(std::vector<int32_t>& words, const std::vector<int32_t>& values) {
  words.push_back(static_cast<int32_t>(values.size()));
  words.insert(words.end(), values.begin(), values.end());
}

}  // namespace

std::string StepPlan::Annotation() const {
  std::size_t requests[2] = {}, tokens[2] = {};
  for (const PlanItem& item : items) {
    ++requests[item.context];
    tokens[item.context] += item.tokens.size();
  }
  char text[96];
  std::snprintf(text, sizeof text, "execute_context_%zu(%zu)_generation_%zu(%zu)", requests[1],
                tokens[1], requests[0], tokens[0]);
  return text;
}

std::vector<int32_t> StepPlan::Serialize() const {
  std::vector<int32_t> words = {kMagic, static_cast<int32_t>(step), stop ? 1 : 0,
                                static_cast<int32_t>(items.size())};
  for (const PlanItem& item : items) {
    words.push_back(item.start);
    words.push_back((item.context ? kContext : 0) | (item.samples ? kSamples : 0));
    AppendVector(words, item.tokens);
    AppendVector(words, item.blocks);
  }
  return words;
}

StepPlan StepPlan::Parse(std::span<const int32_t> words) {
  WordReader reader(words);
  StepPlan plan;
  const int32_t magic = reader.Next();
  plan.step = static_cast<uint32_t>(reader.Next());
  plan.stop = reader.Next() != 0;
  const int32_t count = reader.Next();
  for (int32_t i = 0; i < count; ++i) {
    PlanItem item;
    item.start = reader.Next();
    const int32_t flags = reader.Next();
    item.context = (flags & kContext) != 0;
    item.samples = (flags & kSamples) != 0;
    item.tokens = reader.Vector();
    item.blocks = reader.Vector();
    plan.items.push_back(std::move(item));
  }
  if (magic != kMagic || !reader.AtEnd()) {
    throw DeviceError(
        "rank 0 sent something that is no step plan; do all ranks run the same program?");
  }
  return plan;
}

}  // namespace teller::serve
