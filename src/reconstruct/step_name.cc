#include "src/reconstruct/step_name.h"

#include <charconv>
#include <regex>
#include <utility>

#include "src/core/error.h"

namespace teller::reconstruct {
namespace {

// std::regex recurses by character: longer names could exhaust the stack.
constexpr std::size_t kMaxNameBytes = 512;

using Groups = std::match_results<std::string_view::const_iterator>;

// The first number in a group; nothing where the group did not match or has none.
std::optional<int32_t> Number(const Groups& groups, int group) {
  if (group <= 0 || !groups[static_cast<std::size_t>(group)].matched) return std::nullopt;
  const std::string text = groups[static_cast<std::size_t>(group)].str();
  const std::size_t first = text.find_first_of("0123456789");
  if (first == std::string::npos) return std::nullopt;
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + first, text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Phase PhaseOfMode(std::string_view mode) {
  if (mode == "EXTEND" || mode == "PREFILL") return Phase::kPrefill;
  if (mode == "DECODE") return Phase::kDecode;
  if (mode == "MIXED") return Phase::kMixed;
  return Phase::kUnknown;
}

Phase PhaseOfCounts(int32_t context, int32_t generation) {
  if (context > 0 && generation > 0) return Phase::kMixed;
  if (context > 0) return Phase::kPrefill;
  return generation > 0 ? Phase::kDecode : Phase::kUnknown;
}

StepName Read(const StepRule& rule, const Groups& groups) {
  StepName name;
  const auto context = Number(groups, rule.context_requests),
             generation = Number(groups, rule.generation_requests);
  if (context || generation) {
    name.phase = PhaseOfCounts(context.value_or(0), generation.value_or(0));
    name.batch_size = context.value_or(0) + generation.value_or(0);
  }
  if (rule.mode > 0) name.phase = PhaseOfMode(groups[static_cast<std::size_t>(rule.mode)].str());
  if (const auto batch = Number(groups, rule.batch)) name.batch_size = *batch;
  if (const auto tokens = Number(groups, rule.context_tokens)) name.context_tokens = *tokens;
  if (const auto tokens = Number(groups, rule.tokens); tokens && name.phase == Phase::kPrefill) {
    name.context_tokens = *tokens;
  }
  if (name.phase == Phase::kDecode) name.context_tokens = 0;
  return name;
}

}  // namespace

std::vector<StepRule> DefaultStepRules() {
  return {{.expression = R"(execute_(?:\d+_)?context_(\d+)\(([^)]*)\)_generation_(\d+)\([^)]*\))",
           .context_requests = 1,
           .context_tokens = 2,
           .generation_requests = 3},
          {.expression = R"(step\[(\w+) bs=(\d+)(?: toks=(\d+))?[^\]]*\])",
           .batch = 2,
           .tokens = 3,
           .mode = 1},
          {.expression = "gpu_model_runner: forward"},
          {.expression = R"(ProfilerStep#\d+)"}};
}

struct StepMatcher::State {
  StepRule rule;
  std::regex expression;
};

StepMatcher::StepMatcher(StepRule rule) : state_(std::make_unique<State>()) {
  state_->rule = std::move(rule);
  try {
    state_->expression = std::regex(state_->rule.expression);
  } catch (const std::regex_error& error) {
    throw ConfigError("steps: '" + state_->rule.expression +
                      "' is not a regular expression: " + error.what());
  }
  const int groups = static_cast<int>(state_->expression.mark_count());
  const StepRule& r = state_->rule;
  for (const int group :
       {r.context_requests, r.context_tokens, r.generation_requests, r.batch, r.tokens, r.mode}) {
    if (group < 0 || group > groups) {
      throw ConfigError("steps: '" + r.expression + "' has " + std::to_string(groups) +
                        " groups, but group " + std::to_string(group) + " is referred to");
    }
  }
}

StepMatcher::~StepMatcher() = default;
StepMatcher::StepMatcher(StepMatcher&&) noexcept = default;
StepMatcher& StepMatcher::operator=(StepMatcher&&) noexcept = default;

std::optional<StepName> StepMatcher::Match(std::string_view name) const {
  if (name.size() > kMaxNameBytes) return std::nullopt;
  Groups groups;
  if (!std::regex_match(name.begin(), name.end(), groups, state_->expression)) return std::nullopt;
  return Read(state_->rule, groups);
}

}  // namespace teller::reconstruct
