#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace teller::reconstruct {

/// What masked lines of one form have in common; words that differ stand as '<*>'.
struct LogTemplate {
  std::string text;
  int64_t lines = 0;
};

/// Templates of a run's masked lines (MaskLine).
struct LogTemplates {
  std::vector<LogTemplate> templates;  ///< by text
  std::vector<int32_t> of;             ///< by line: index into `templates`
};

/// Mines templates after Drain (He et al., ICWS 2017): lines of as many words and the same first
/// words are of one group, those of a group with enough words in common of one template; words with
/// digits are variable from the start. Distinct lines are taken in the order of their text, so that
/// the order and the number of lines do not matter: the same forms give the same templates in every
/// run.
/// O(distinct lines * templates of a group).
LogTemplates MineTemplates(std::span<const std::string> masked_lines);

}  // namespace teller::reconstruct
