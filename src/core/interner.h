#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/core/ids.h"

namespace teller {

/// A table of distinct strings; ids are dense and count from 0 in order of first appearance.
class StringInterner {
 public:
  StringInterner() = default;
  explicit StringInterner(const std::vector<std::string>& strings) {
    for (const std::string& s : strings) Intern(s);
  }

  StringId Intern(std::string_view text) {
    if (auto found = ids_.find(text); found != ids_.end()) return found->second;
    const std::string& kept = strings_.emplace_back(text);
    const StringId id{static_cast<uint32_t>(strings_.size() - 1)};
    ids_.emplace(kept, id);
    return id;
  }
  /// kNoString where the text was never interned.
  StringId Find(std::string_view text) const {
    auto found = ids_.find(text);
    return found == ids_.end() ? kNoString : found->second;
  }
  std::string_view View(StringId id) const { return strings_.at(Index(id)); }
  std::size_t size() const { return strings_.size(); }
  std::vector<std::string> Strings() const { return {strings_.begin(), strings_.end()}; }

  StringInterner(StringInterner&&) = default;
  StringInterner& operator=(StringInterner&&) = default;
  StringInterner(const StringInterner& other) : StringInterner(other.Strings()) {}
  StringInterner& operator=(const StringInterner& other) {
    if (this != &other) *this = StringInterner(other);
    return *this;
  }

 private:
  std::deque<std::string> strings_;  // a deque: views into it stay valid as it grows
  std::unordered_map<std::string_view, StringId> ids_;
};

}  // namespace teller
