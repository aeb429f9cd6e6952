#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace teller::config {

struct Document;
struct Value;

/// One value of a YAML document, which knows where it stands and which of its keys were read.
///
/// A reader takes what it knows with Get/Find and then calls RejectUnknownKeys, so that defaults
/// live in the reader's struct and an unknown or mistyped key is an error with file, line, column
/// and the nearest known key. `use: FILE` in a mapping includes that file's mapping (path relative
/// to the including file, else to the working folder), overridden key by key; cycles and depth over
/// 16 are errors. Documents over 4 MiB, aliases and nesting over 64 are refused. All errors are
/// ConfigError: 'experiments/x.yaml:12:3: load.concurency: unknown key; did you mean
/// "concurrency"?'.
class Node {
 public:
  /// Reads a file. `overrides` are 'a.b.c=value' (YAML scalars or flow values; list items by
  /// index), as given by --set.
  static Node Load(const std::filesystem::path& path, std::span<const std::string> overrides = {});
  static Node Parse(std::string_view yaml, std::string_view name,
                    std::span<const std::string> overrides = {});

  bool IsMap() const;
  bool IsList() const;
  bool IsScalar() const;
  bool IsNull() const;

  /// A key of a mapping: Get throws where it is missing, Find answers nothing.
  Node Get(std::string_view key) const;
  std::optional<Node> Find(std::string_view key) const;
  /// Entries of a mapping in document order (all marked as read), items of a list.
  std::vector<std::pair<std::string, Node>> Entries() const;
  std::vector<Node> Items() const;

  std::string AsString() const;
  /// A path, relative to the file that the value was written in; a --set override is relative to
  /// the working folder.
  std::filesystem::path AsPath() const;
  bool AsBool() const;
  int64_t AsInt(int64_t low = INT64_MIN, int64_t high = INT64_MAX) const;
  double AsDouble(double low, double high) const;
  double AsDouble() const;
  /// One of `choices`; the error names them.
  std::string AsChoice(std::span<const std::string_view> choices) const;
  std::vector<std::string> AsStrings() const;
  std::vector<int64_t> AsInts(int64_t low = INT64_MIN, int64_t high = INT64_MAX) const;
  std::vector<double> AsDoubles() const;

  /// Overwrites `value` where the key stands; leaves the default otherwise.
  void Read(std::string_view key, std::string& value) const;
  void Read(std::string_view key, bool& value) const;
  void Read(std::string_view key, int64_t& value, int64_t low = INT64_MIN,
            int64_t high = INT64_MAX) const;
  void Read(std::string_view key, int& value, int64_t low = INT32_MIN,
            int64_t high = INT32_MAX) const;
  void Read(std::string_view key, double& value, double low, double high) const;
  void Read(std::string_view key, std::vector<std::string>& value) const;
  void Read(std::string_view key, std::vector<int64_t>& value) const;

  /// Throws where a key of this mapping, or of any mapping below it that was read, was not asked
  /// for.
  void RejectUnknownKeys() const;
  /// 'experiments/x.yaml:12:3: load.concurrency'.
  std::string Where() const;
  /// Throws ConfigError: Where(), then the message.
  [[noreturn]] void Fail(std::string_view message) const;

  /// The resolved value as YAML with sorted keys: equal configurations give equal text, so it can
  /// be hashed.
  std::string Canonical() const;
  /// The resolved value as YAML in document order, for config.yaml of a run folder.
  std::string ToYaml() const;

 private:
  Node(std::shared_ptr<const Document> document, const Value* value);

  std::shared_ptr<const Document> document_;
  const Value* value_ = nullptr;
};

}  // namespace teller::config
