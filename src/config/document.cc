#include "src/config/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller::config {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void FailAt(const Position& position, std::string_view message) {
  throw ConfigError(fmt::format("{}: {}", Describe(position), message));
}

/// What all files of one document share.
struct Budget {
  std::size_t bytes = 0;
  std::size_t values = 0;
};

/// Builds values from yaml-cpp's events; refuses what we do not want before it can grow.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const std::string> source, Budget& budget)
      : source_(std::move(source)), budget_(budget) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Add(mark, ValueKind::kNull, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    FailAt(At(mark),
           "YAML aliases are not supported; write the value out or put it in a file and include it "
           "with 'use'");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    if (AwaitsKey()) return TakeKey(mark, text);
    Value& value = Add(mark, ValueKind::kScalar, tag);
    value.text = text;
    value.quoted = tag == "!";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Open(Add(mark, ValueKind::kList, tag), mark);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Open(Add(mark, ValueKind::kMap, tag), mark);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  Value TakeRoot() { return std::move(root_); }

 private:
  struct Level {
    Value* value;
    bool has_key = false;
  };

  Position At(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1}; }
  bool AwaitsKey() const {
    return !open_.empty() && open_.back().value->kind == ValueKind::kMap && !open_.back().has_key;
  }

  void TakeKey(const YAML::Mark& mark, const std::string& key) {
    if (key.empty() || key.size() > kMaxKeyBytes)
      FailAt(At(mark), "a key must have 1 to 256 bytes");
    Value& map = *open_.back().value;
    if (const Value::Entry* earlier = map.FindEntry(key)) {
      FailAt(At(mark), fmt::format("'{}' stands twice in this mapping (first in line {})", key,
                                   earlier->position.line));
    }
    map.entries.push_back({key, At(mark), {}});
    open_.back().has_key = true;
  }

  Value& Add(const YAML::Mark& mark, ValueKind kind, const std::string& tag) {
    if (++budget_.values > kMaxValues)
      FailAt(At(mark), fmt::format("more than {} values", kMaxValues));
    if (!tag.empty() && tag != "?" && tag != "!") FailAt(At(mark), "YAML tags are not supported");
    if (AwaitsKey()) FailAt(At(mark), "a key must be plain text");
    Value& value = Place();
    value.kind = kind;
    value.position = At(mark);
    return value;
  }

  Value& Place() {
    if (open_.empty()) return root_;
    Level& level = open_.back();
    if (level.value->kind == ValueKind::kMap) {
      level.has_key = false;
      return level.value->entries.back().value;
    }
    return level.value->items.emplace_back();
  }

  void Open(Value& value, const YAML::Mark& mark) {
    if (open_.size() >= static_cast<std::size_t>(kMaxNesting)) {
      FailAt(At(mark), fmt::format("nested deeper than {} levels", kMaxNesting));
    }
    open_.push_back({&value});
  }
  void Close() { open_.pop_back(); }

  std::shared_ptr<const std::string> source_;
  Budget& budget_;
  Value root_;
  // Addresses stay valid: a container's siblings are only added after it was closed.
  std::vector<Level> open_;
};

Value ParseText(std::string_view yaml, const std::string& name, Budget& budget) {
  budget.bytes += yaml.size();
  if (budget.bytes > kMaxDocumentBytes) {
    throw ConfigError(
        fmt::format("{}: the configuration with what it includes is larger than {} MiB", name,
                    kMaxDocumentBytes >> 20));
  }
  auto source = std::make_shared<const std::string>(name);
  TreeBuilder builder(source, budget);
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Value root = builder.TakeRoot();
    if (!root.position.source) root.position = {source, 1, 1};  // nothing, or comments only
    if (parser.HandleNextDocument(builder))
      throw ConfigError(name + ": more than one YAML document; write one");
    return root;
  } catch (const YAML::Exception& error) {
    FailAt({source, error.mark.line + 1, error.mark.column + 1}, error.msg);
  }
}

/// Lays `over` upon `base`: mappings key by key, everything else as a whole.
void MergeInto(Value& base, Value&& over) {
  if (base.kind != ValueKind::kMap || over.kind != ValueKind::kMap) {
    base = std::move(over);
    return;
  }
  base.position = over.position;
  for (Value::Entry& entry : over.entries) {
    if (Value::Entry* known = base.FindEntry(entry.key)) {
      known->position = entry.position;
      MergeInto(known->value, std::move(entry.value));
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
}

/// Replaces every mapping's `use: FILE` by that file's mapping, with the mapping's other keys laid
/// upon it.
class Includer {
 public:
  explicit Includer(Budget& budget) : budget_(budget) {}

  void Resolve(Value& value) {
    for (Value& item : value.items) Resolve(item);
    for (Value::Entry& entry : value.entries) Resolve(entry.value);
    auto use = std::find_if(value.entries.begin(), value.entries.end(),
                            [](const Value::Entry& entry) { return entry.key == "use"; });
    if (value.kind != ValueKind::kMap || use == value.entries.end()) return;
    Value included = Include(use->value);
    value.entries.erase(use);
    MergeInto(included, std::move(value));
    value = std::move(included);
  }

 private:
  Value Include(const Value& use) {
    if (use.kind != ValueKind::kScalar)
      FailAt(use.position, "use: expected the path of a YAML file");
    const fs::path path = Locate(use);
    const fs::path identity = fs::weakly_canonical(path);
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {
      FailAt(use.position, fmt::format("use: '{}' includes itself", use.text));
    }
    if (open_.size() >= static_cast<std::size_t>(kMaxIncludes)) {
      FailAt(use.position, fmt::format("use: more than {} files deep", kMaxIncludes));
    }
    open_.push_back(identity);
    Value value = ParseText(ReadDocument(path), path.string(), budget_);
    if (value.kind != ValueKind::kMap)
      FailAt(use.position, fmt::format("use: '{}' is not a mapping", use.text));
    Resolve(value);
    open_.pop_back();
    return value;
  }

  static fs::path Locate(const Value& use) {
    const fs::path wanted(use.text);
    const fs::path beside = fs::path(*use.position.source).parent_path() / wanted;
    std::error_code error;
    if (fs::is_regular_file(beside, error)) return beside;
    if (fs::is_regular_file(wanted, error)) return wanted;
    FailAt(use.position,
           fmt::format("use: no file '{}' beside this file or in the working folder", use.text));
  }

  Budget& budget_;
  std::vector<fs::path> open_;
};

/// One step of an override's path within `value`: a key (made where it is missing) or a list's
/// index.
Value& Descend(Value& value, const std::string& part, const Position& position) {
  if (value.kind == ValueKind::kList) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error != std::errc{} || end != part.data() + part.size() || index >= value.items.size()) {
      FailAt(position,
             fmt::format("'{}' is not an index into a list of {}", part, value.items.size()));
    }
    return value.items[index];
  }
  if (value.kind == ValueKind::kScalar)
    FailAt(position, fmt::format("'{}' lies below a plain value", part));
  value.kind = ValueKind::kMap;
  if (Value::Entry* entry = value.FindEntry(part)) return entry->value;
  return value.entries.emplace_back(Value::Entry{part, position, {}}).value;
}

void Relocate(Value& value, const Position& position) {
  value.position = position;
  for (Value& item : value.items) Relocate(item, position);
  for (Value::Entry& entry : value.entries) {
    entry.position = position;
    Relocate(entry.value, position);
  }
}

void Override(Value& root, const std::string& assignment, Budget& budget) {
  const Position position{std::make_shared<const std::string>("--set " + assignment), 0, 0};
  const std::size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string::npos) FailAt(position, "expected KEY.KEY=VALUE");
  Value* target = &root;
  std::istringstream parts(assignment.substr(0, equals));
  for (std::string part; std::getline(parts, part, '.');) {
    if (part.empty() || part.size() > kMaxKeyBytes) FailAt(position, "expected KEY.KEY=VALUE");
    target = &Descend(*target, part, position);
  }
  *target = ParseText(assignment.substr(equals + 1), *position.source, budget);
  Relocate(*target, position);
}

void NamePaths(Value& value, const std::string& path) {
  value.path = path;
  for (std::size_t i = 0; i < value.items.size(); ++i)
    NamePaths(value.items[i], fmt::format("{}[{}]", path, i));
  for (Value::Entry& entry : value.entries) {
    NamePaths(entry.value, path.empty() ? entry.key : path + "." + entry.key);
  }
}

}  // namespace

std::string Describe(const Position& position) {
  const std::string& source = position.source ? *position.source : std::string();
  return position.line > 0 ? fmt::format("{}:{}:{}", source, position.line, position.column)
                           : source;
}

const Value::Entry* Value::FindEntry(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

Value::Entry* Value::FindEntry(std::string_view key) {
  return const_cast<Entry*>(static_cast<const Value*>(this)->FindEntry(key));
}

std::shared_ptr<const Document> ParseDocument(std::string_view yaml, const std::string& name,
                                              std::span<const std::string> overrides) {
  Budget budget;
  auto document = std::make_shared<Document>();
  document->root = ParseText(yaml, name, budget);
  Includer(budget).Resolve(document->root);
  for (const std::string& assignment : overrides) Override(document->root, assignment, budget);
  NamePaths(document->root, "");
  return document;
}

std::string ReadDocument(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw ConfigError(fmt::format("configuration '{}' does not exist", path.string()));
  }
  if (!fs::is_regular_file(path, error)) {
    throw ConfigError(fmt::format("configuration '{}' is not a file", path.string()));
  }
  try {
    return ReadFile(path, kMaxDocumentBytes);
  } catch (const Error& failure) {
    throw ConfigError(failure.what());
  }
}

}  // namespace teller::config
