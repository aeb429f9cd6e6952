#pragma once

#include <string>
#include <vector>

namespace teller {

/// A table for people: columns align, numbers to the right, text to the left.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  /// Adds a row of as many cells as the header has.
  void AddRow(std::vector<std::string> cells);
  const std::vector<std::string>& header() const { return header_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  /// Space-aligned text with a rule under the header, each line ended by a newline.
  std::string ToText() const;
  /// GitHub Markdown, aligned in the source as well.
  std::string ToMarkdown() const;
  /// RFC 4180.
  std::string ToCsv() const;
  /// A booktabs tabular, special characters escaped.
  std::string ToLatex() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace teller
