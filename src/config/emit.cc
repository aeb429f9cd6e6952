#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "src/config/document.h"

namespace teller::config {
namespace {

bool IsNumber(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error != std::errc::invalid_argument && end == text.data() + text.size();
}

/// Whether text may stand unquoted in block and in flow style.
bool IsPlainSafe(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return false;
  const auto safe = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_./+- ").find(c) != std::string_view::npos;
  };
  const bool starts_well = std::isalnum(static_cast<unsigned char>(text.front())) ||
                           text.front() == '_' || text.front() == '.' || text.front() == '/' ||
                           IsNumber(text);
  return starts_well && text != "..." && std::all_of(text.begin(), text.end(), safe);
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (quoted += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string ScalarText(const Value& value) {
  const bool keeps_meaning = value.quoted ? !LooksTyped(value.text) : true;
  return keeps_meaning && IsPlainSafe(value.text) ? value.text : Quote(value.text);
}

bool IsContainer(const Value& value) {
  return (value.kind == ValueKind::kList && !value.items.empty()) ||
         (value.kind == ValueKind::kMap && !value.entries.empty());
}

/// Whether a value is written behind its key, in one line.
bool IsInline(const Value& value) {
  return !IsContainer(value) || (value.kind == ValueKind::kList &&
                                 std::none_of(value.items.begin(), value.items.end(), IsContainer));
}

std::string InlineText(const Value& value) {
  if (value.kind == ValueKind::kNull) return "null";
  if (value.kind == ValueKind::kScalar) return ScalarText(value);
  if (value.kind == ValueKind::kMap) return "{}";
  std::string text = "[";
  for (const Value& item : value.items) text += (text.size() > 1 ? ", " : "") + InlineText(item);
  return text + "]";
}

std::string EmitBlock(const Value& value, std::size_t indent, bool sorted);

std::string EmitItem(const Value& item, std::size_t indent, bool sorted) {
  if (IsInline(item)) return std::string(indent, ' ') + "- " + InlineText(item) + "\n";
  std::string block = EmitBlock(item, indent + 2, sorted);
  block[indent] = '-';
  return block;
}

std::string EmitMap(const Value& map, std::size_t indent, bool sorted) {
  std::vector<const Value::Entry*> entries;
  for (const Value::Entry& entry : map.entries) entries.push_back(&entry);
  if (sorted)
    std::sort(entries.begin(), entries.end(), [](auto* a, auto* b) { return a->key < b->key; });
  std::string text;
  for (const Value::Entry* entry : entries) {
    const bool typed = LooksTyped(entry->key);
    text += std::string(indent, ' ') +
            (IsPlainSafe(entry->key) && !typed ? entry->key : Quote(entry->key)) + ":";
    text += IsInline(entry->value) ? " " + InlineText(entry->value) + "\n"
                                   : "\n" + EmitBlock(entry->value, indent + 2, sorted);
  }
  return text;
}

std::string EmitBlock(const Value& value, std::size_t indent, bool sorted) {
  if (IsInline(value)) return std::string(indent, ' ') + InlineText(value) + "\n";
  if (value.kind == ValueKind::kMap) return EmitMap(value, indent, sorted);
  std::string text;
  for (const Value& item : value.items) text += EmitItem(item, indent, sorted);
  return text;
}

}  // namespace

bool LooksTyped(std::string_view text) {
  constexpr std::string_view kWords[] = {"",     "~",    "null",  "Null",  "NULL", "true",
                                         "True", "TRUE", "false", "False", "FALSE"};
  return std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords) ||
         IsNumber(text);
}

std::string Emit(const Value& value, bool sorted) { return EmitBlock(value, 0, sorted); }

}  // namespace teller::config
