#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace teller::experiment {

/// One row of the published results (docs/design.md, section 1), for orientation only: another test
/// set.
struct PublishedRow {
  std::string_view view;
  int vocabulary;
  double tokens_per_step, compression;
  double accuracy, f1, operator_macro_f1;
};

std::span<const PublishedRow> PublishedRows();

/// A published metric ('accuracy', 'f1', 'operator_macro_f1', 'compression', 'tokens_per_step');
/// nothing where there is none.
std::optional<double> Published(std::string_view view, int vocabulary, std::string_view metric);

}  // namespace teller::experiment
