#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace teller::config {

/// Limits on what anyone can feed us; bytes and values are counted over all included files
/// together.
inline constexpr std::size_t kMaxDocumentBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMaxValues = 200'000;
inline constexpr std::size_t kMaxKeyBytes = 256;
inline constexpr int kMaxNesting = 64;
inline constexpr int kMaxIncludes = 16;

/// Where a value was written; line 0 where it has no line (a --set override).
struct Position {
  std::shared_ptr<const std::string> source;
  int line = 0;
  int column = 0;
};

/// 'x.yaml:12:3', or the source alone.
std::string Describe(const Position& position);

enum class ValueKind { kNull, kScalar, kList, kMap };

/// One value of a resolved document. The mutable fields record what readers asked for.
struct Value {
  struct Entry;

  ValueKind kind = ValueKind::kNull;
  Position position;
  std::string path;     ///< 'load.concurrency', 'faults[2].kind'; empty at the top
  std::string text;     ///< of a scalar
  bool quoted = false;  ///< a quoted scalar is text, whatever it looks like
  std::vector<Value> items;
  std::vector<Entry> entries;  ///< in document order, keys are distinct

  mutable std::set<std::string, std::less<>> asked;  ///< keys that were looked up, present or not
  mutable bool read_whole = false;                   ///< every key was handed out by Entries()

  const Entry* FindEntry(std::string_view key) const;
  Entry* FindEntry(std::string_view key);
};

struct Value::Entry {
  std::string key;
  Position position;
  Value value;
};

struct Document {
  Value root;
};

/// Parses `yaml`, called `name` in messages; resolves `use:`, applies overrides, names every path.
/// Throws ConfigError with the place.
std::shared_ptr<const Document> ParseDocument(std::string_view yaml, const std::string& name,
                                              std::span<const std::string> overrides);

/// Reads a file of at most kMaxDocumentBytes. Throws ConfigError.
std::string ReadDocument(const std::filesystem::path& path);

/// YAML text of a value, in document order or with sorted keys.
std::string Emit(const Value& value, bool sorted);

/// Whether a plain scalar is anything but text: a null, a boolean or a number.
bool LooksTyped(std::string_view text);

}  // namespace teller::config
