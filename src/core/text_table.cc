#include "src/core/text_table.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "src/core/error.h"

namespace teller {
namespace {

// Columns on a terminal: continuation bytes of UTF-8 take none.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool LooksNumeric(std::string_view cell) {
  if (cell.empty() || cell == "-") return true;
  const std::size_t start = cell.find_first_of("0123456789.");
  return start != std::string_view::npos && start <= 1 &&
         cell.find_first_not_of("+-<>=~(") == start;
}

std::string Pad(const std::string& cell, std::size_t width, bool right) {
  const std::string space(width - Width(cell), ' ');
  return right ? space + cell : cell + space;
}

struct Column {
  std::size_t width;
  bool numeric;
};

std::vector<Column> Measure(const std::vector<std::string>& header,
                            const std::vector<std::vector<std::string>>& rows) {
  std::vector<Column> columns;
  for (std::size_t c = 0; c < header.size(); ++c) {
    Column column{Width(header[c]), !rows.empty()};
    for (const auto& row : rows) {
      column.width = std::max(column.width, Width(row[c]));
      column.numeric = column.numeric && LooksNumeric(row[c]);
    }
    columns.push_back(column);
  }
  return columns;
}

std::string Trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string EscapeLatex(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (std::string_view("&%$#_{}").find(c) != std::string_view::npos) out.push_back('\\');
    if (c == '\\')
      out += "\\textbackslash{}";
    else if (c == '~')
      out += "\\textasciitilde{}";
    else if (c == '^')
      out += "\\textasciicircum{}";
    else
      out.push_back(c);
  }
  return out;
}

std::string QuoteCsv(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (char c : cell) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  return out + "\"";
}

std::string EscapeMarkdown(const std::string& cell) {
  std::string out;
  for (char c : cell) {
    if (c == '|') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

template <typename Cell>
std::string Joined(const std::vector<std::string>& cells, std::string_view separator, Cell cell) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) line += separator;
    line += cell(cells[c], c);
  }
  return line;
}

}  // namespace

void TextTable::AddRow(std::vector<std::string> cells) {
  TELLER_CHECK(cells.size() == header_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToText() const {
  const auto columns = Measure(header_, rows_);
  auto cell = [&](const std::string& text, std::size_t c) {
    return Pad(text, columns[c].width, columns[c].numeric);
  };
  std::string out = Trimmed(Joined(header_, "  ", cell));
  out += Trimmed(Joined(header_, "  ", [&](const std::string&, std::size_t c) {
    return std::string(columns[c].width, '-');
  }));
  for (const auto& row : rows_) out += Trimmed(Joined(row, "  ", cell));
  return out;
}

std::string TextTable::ToMarkdown() const {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  for (const auto& text : header_) header.push_back(EscapeMarkdown(text));
  for (const auto& row : rows_) {
    rows.emplace_back();
    for (const auto& text : row) rows.back().push_back(EscapeMarkdown(text));
  }
  auto columns = Measure(header, rows);
  for (Column& column : columns) column.width = std::max<std::size_t>(column.width, 3);
  auto cell = [&](const std::string& text, std::size_t c) {
    return Pad(text, columns[c].width, columns[c].numeric);
  };
  auto rule = [&](const std::string&, std::size_t c) {
    return std::string(columns[c].width - 1, '-') + (columns[c].numeric ? ":" : "-");
  };
  std::string out =
      "| " + Joined(header, " | ", cell) + " |\n| " + Joined(header, " | ", rule) + " |\n";
  for (const auto& row : rows) out += "| " + Joined(row, " | ", cell) + " |\n";
  return out;
}

std::string TextTable::ToCsv() const {
  auto cell = [](const std::string& text, std::size_t) { return QuoteCsv(text); };
  std::string out = Joined(header_, ",", cell) + "\n";
  for (const auto& row : rows_) out += Joined(row, ",", cell) + "\n";
  return out;
}

std::string TextTable::ToLatex() const {
  const auto columns = Measure(header_, rows_);
  auto cell = [](const std::string& text, std::size_t) { return EscapeLatex(text); };
  std::string out = "\\begin{tabular}{";
  for (const Column& column : columns) out.push_back(column.numeric ? 'r' : 'l');
  out += "}\n\\toprule\n" + Joined(header_, " & ", cell) + " \\\\\n\\midrule\n";
  for (const auto& row : rows_) out += Joined(row, " & ", cell) + " \\\\\n";
  return out + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace teller
