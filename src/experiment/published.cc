#include "src/experiment/published.h"

#include <array>

namespace teller::experiment {
namespace {

constexpr std::array<PublishedRow, 6> kRows = {{
    {"horizontal", 256, 361.43, .839, .930, .916, .806},
    {"vertical", 256, 361.43, .839, .911, .900, .792},
    {"horizontal", 512, 25.90, .988, .800, .727, .173},
    {"vertical", 512, 25.90, .988, .733, .636, .163},
    {"horizontal", 1024, 3.88, .998, .617, .531, .138},
    {"vertical", 1024, 3.88, .998, .567, .458, .138},
}};

}  // namespace

std::span<const PublishedRow> PublishedRows() { return kRows; }

std::optional<double> Published(std::string_view view, int vocabulary, std::string_view metric) {
  for (const PublishedRow& row : kRows) {
    if (row.view != view || row.vocabulary != vocabulary) continue;
    if (metric == "accuracy") return row.accuracy;
    if (metric == "f1") return row.f1;
    if (metric == "operator_macro_f1") return row.operator_macro_f1;
    if (metric == "compression") return row.compression;
    if (metric == "tokens_per_step") return row.tokens_per_step;
  }
  return std::nullopt;
}

}  // namespace teller::experiment
