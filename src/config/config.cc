#include "src/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "src/config/document.h"
#include "src/core/error.h"

namespace teller::config {
namespace {

/// Levenshtein distance, for 'did you mean'.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

/// The known key nearest to `key`, or nothing where none is within half its length.
template <typename Keys>
std::optional<std::string> Nearest(std::string_view key, const Keys& known) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, key.size() / 2) + 1;
  for (const auto& candidate : known) {
    const std::size_t distance = EditDistance(key, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = std::string(candidate);
    }
  }
  return best;
}

/// The shortest text that says a limit, for messages.
std::string RangeText(int64_t low, int64_t high) {
  const bool open_high = high == INT64_MAX || high == INT32_MAX;
  if (low == INT64_MIN || low == INT32_MIN)
    return open_high ? "" : fmt::format(" of at most {}", high);
  return open_high ? fmt::format(" of at least {}", low) : fmt::format(" from {} to {}", low, high);
}

std::string Shown(const Value& value) {
  switch (value.kind) {
    case ValueKind::kNull:
      return "nothing";
    case ValueKind::kList:
      return "a list";
    case ValueKind::kMap:
      return "a mapping";
    case ValueKind::kScalar:
      break;
  }
  const std::string text = value.text.size() > 60 ? value.text.substr(0, 57) + "..." : value.text;
  return fmt::format("{}'{}'", value.quoted ? "the text " : "", text);
}

std::string Place(const Position& position, const std::string& path) {
  return path.empty() ? Describe(position) : fmt::format("{}: {}", Describe(position), path);
}

void RejectUnknown(const Value& value, bool is_top) {
  for (const Value& item : value.items) RejectUnknown(item, false);
  const bool was_read = is_top || value.read_whole || !value.asked.empty();
  if (!was_read) return;
  for (const Value::Entry& entry : value.entries) {
    if (value.read_whole || value.asked.contains(entry.key)) {
      RejectUnknown(entry.value, false);
      continue;
    }
    const std::optional<std::string> nearest = Nearest(entry.key, value.asked);
    throw ConfigError(
        fmt::format("{}: unknown key; {}", Place(entry.position, entry.value.path),
                    nearest ? fmt::format("did you mean \"{}\"?", *nearest)
                            : fmt::format("known here: {}", fmt::join(value.asked, ", "))));
  }
}

}  // namespace

Node::Node(std::shared_ptr<const Document> document, const Value* value)
    : document_(std::move(document)), value_(value) {}

Node Node::Load(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return Parse(ReadDocument(path), path.string(), overrides);
}

Node Node::Parse(std::string_view yaml, std::string_view name,
                 std::span<const std::string> overrides) {
  auto document = ParseDocument(yaml, std::string(name), overrides);
  const Value* root = &document->root;
  return Node(std::move(document), root);
}

bool Node::IsMap() const { return value_->kind == ValueKind::kMap; }
bool Node::IsList() const { return value_->kind == ValueKind::kList; }
bool Node::IsScalar() const { return value_->kind == ValueKind::kScalar; }
bool Node::IsNull() const { return value_->kind == ValueKind::kNull; }

Node Node::Get(std::string_view key) const {
  std::optional<Node> found = Find(key);
  if (!found) Fail(fmt::format("the key \"{}\" is missing", key));
  return *found;
}

std::optional<Node> Node::Find(std::string_view key) const {
  if (!IsMap()) Fail(fmt::format("expected a mapping with \"{}\", found {}", key, Shown(*value_)));
  value_->asked.emplace(key);
  const Value::Entry* entry = value_->FindEntry(key);
  if (entry == nullptr) return std::nullopt;
  return Node(document_, &entry->value);
}

std::vector<std::pair<std::string, Node>> Node::Entries() const {
  if (!IsMap()) Fail(fmt::format("expected a mapping, found {}", Shown(*value_)));
  value_->read_whole = true;
  std::vector<std::pair<std::string, Node>> entries;
  for (const Value::Entry& entry : value_->entries)
    entries.emplace_back(entry.key, Node(document_, &entry.value));
  return entries;
}

std::vector<Node> Node::Items() const {
  if (!IsList()) Fail(fmt::format("expected a list, found {}", Shown(*value_)));
  std::vector<Node> items;
  for (const Value& item : value_->items) items.push_back(Node(document_, &item));
  return items;
}

std::string Node::AsString() const {
  if (!IsScalar()) Fail(fmt::format("expected text, found {}", Shown(*value_)));
  return value_->text;
}

std::filesystem::path Node::AsPath() const {
  const std::filesystem::path written = AsString();
  const bool in_file = value_->position.line > 0;
  if (written.is_absolute() || !in_file) return written;
  const std::filesystem::path source = *value_->position.source;
  return (source.parent_path() / written).lexically_normal();
}

bool Node::AsBool() const {
  const std::string& text = value_->text;
  if (IsScalar() && !value_->quoted) {
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
  }
  Fail(fmt::format("expected true or false, found {}", Shown(*value_)));
}

int64_t Node::AsInt(int64_t low, int64_t high) const {
  const std::string& text = value_->text;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!IsScalar() || value_->quoted || !whole || number < low || number > high) {
    Fail(fmt::format("expected a whole number{}, found {}", RangeText(low, high), Shown(*value_)));
  }
  return number;
}

double Node::AsDouble(double low, double high) const {
  const std::string& text = value_->text;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good =
      error == std::errc{} && end == text.data() + text.size() && std::isfinite(number);
  if (!IsScalar() || value_->quoted || !good || number < low || number > high) {
    const bool open =
        low == std::numeric_limits<double>::lowest() && high == std::numeric_limits<double>::max();
    Fail(fmt::format("expected a number{}, found {}",
                     open ? "" : fmt::format(" from {} to {}", low, high), Shown(*value_)));
  }
  return number;
}

double Node::AsDouble() const {
  return AsDouble(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
}

std::string Node::AsChoice(std::span<const std::string_view> choices) const {
  const std::string text = AsString();
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    const std::optional<std::string> nearest = Nearest(text, choices);
    Fail(fmt::format("expected one of {}, found {}{}", fmt::join(choices, ", "), Shown(*value_),
                     nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : ""));
  }
  return text;
}

std::vector<std::string> Node::AsStrings() const {
  std::vector<std::string> values;
  for (const Node& item : Items()) values.push_back(item.AsString());
  return values;
}

std::vector<int64_t> Node::AsInts(int64_t low, int64_t high) const {
  std::vector<int64_t> values;
  for (const Node& item : Items()) values.push_back(item.AsInt(low, high));
  return values;
}

std::vector<double> Node::AsDoubles() const {
  std::vector<double> values;
  for (const Node& item : Items()) values.push_back(item.AsDouble());
  return values;
}

void Node::Read(std::string_view key, std::string& value) const {
  if (const auto found = Find(key)) value = found->AsString();
}
void Node::Read(std::string_view key, bool& value) const {
  if (const auto found = Find(key)) value = found->AsBool();
}
void Node::Read(std::string_view key, int64_t& value, int64_t low, int64_t high) const {
  if (const auto found = Find(key)) value = found->AsInt(low, high);
}
void Node::Read(std::string_view key, int& value, int64_t low, int64_t high) const {
  if (const auto found = Find(key)) {
    value = static_cast<int>(
        found->AsInt(std::max<int64_t>(low, INT32_MIN), std::min<int64_t>(high, INT32_MAX)));
  }
}
void Node::Read(std::string_view key, double& value, double low, double high) const {
  if (const auto found = Find(key)) value = found->AsDouble(low, high);
}
void Node::Read(std::string_view key, std::vector<std::string>& value) const {
  if (const auto found = Find(key)) value = found->AsStrings();
}
void Node::Read(std::string_view key, std::vector<int64_t>& value) const {
  if (const auto found = Find(key)) value = found->AsInts();
}

void Node::RejectUnknownKeys() const { RejectUnknown(*value_, true); }

std::string Node::Where() const { return Place(value_->position, value_->path); }

void Node::Fail(std::string_view message) const {
  throw ConfigError(fmt::format("{}: {}", Where(), message));
}

std::string Node::Canonical() const { return Emit(*value_, true); }

std::string Node::ToYaml() const { return Emit(*value_, false); }

}  // namespace teller::config
