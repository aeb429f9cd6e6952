#include "src/reconstruct/log_template.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace teller::reconstruct {
namespace {

// Drain's fixed depth and similarity; 2 leading words and .5 are its authors' defaults for logs of
// services.
constexpr std::size_t kLeadingWords = 2;
constexpr double kSimilarity = 0.5;
constexpr std::size_t kMostTemplatesOfAGroup = 256;  // a hostile log ends here, not in memory
constexpr std::string_view kAnyWord = "<*>";

using Words = std::vector<std::string_view>;

bool HasDigit(std::string_view word) {
  return std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

Words Split(std::string_view line) {
  Words words;
  while (!line.empty()) {
    const std::size_t blank = line.find(' ');
    if (blank != 0) words.push_back(line.substr(0, blank));
    line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
  }
  for (std::string_view& word : words) {
    if (HasDigit(word)) word = kAnyWord;
  }
  return words;
}

struct Cluster {
  Words words;
  std::size_t order = 0;
};

/// Share of words that are equal; variable ones of the template count for nothing, as in Drain.
double Similarity(const Cluster& cluster, const Words& words) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    equal += cluster.words[i] == words[i] && words[i] != kAnyWord ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(std::max<std::size_t>(1, words.size()));
}

class Miner {
 public:
  /// Answers the cluster's number.
  std::size_t Add(const Words& words) {
    std::vector<Cluster>& group = groups_[KeyOf(words)];
    Cluster* best = nullptr;
    double most = 0;
    for (Cluster& cluster : group) {
      const double similarity = cluster.words == words ? 1 : Similarity(cluster, words);
      if (similarity > most) std::tie(best, most) = std::pair(&cluster, similarity);
    }
    const bool fits = best != nullptr && most >= kSimilarity;
    if (!fits && group.size() < kMostTemplatesOfAGroup) return Open(group, words);
    if (best == nullptr) best = &group.front();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (best->words[i] != words[i]) best->words[i] = kAnyWord;
    }
    return best->order;
  }

  /// By cluster's number.
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts(clusters_);
    for (const auto& [key, group] : groups_) {
      for (const Cluster& cluster : group) {
        std::string& text = texts[cluster.order];
        for (const std::string_view word : cluster.words) {
          if (!text.empty()) text += ' ';
          text += word;
        }
      }
    }
    return texts;
  }

 private:
  using Key = std::pair<std::size_t, Words>;

  static Key KeyOf(const Words& words) {
    const auto leading = static_cast<std::ptrdiff_t>(std::min(words.size(), kLeadingWords));
    return {words.size(), Words(words.begin(), words.begin() + leading)};
  }
  std::size_t Open(std::vector<Cluster>& group, const Words& words) {
    group.push_back({words, clusters_});
    return clusters_++;
  }

  std::map<Key, std::vector<Cluster>> groups_;
  std::size_t clusters_ = 0;
};

}  // namespace

LogTemplates MineTemplates(std::span<const std::string> masked_lines) {
  std::map<std::string_view, std::vector<std::size_t>> distinct;
  for (std::size_t i = 0; i < masked_lines.size(); ++i) distinct[masked_lines[i]].push_back(i);
  Miner miner;
  std::vector<std::size_t> cluster_of(masked_lines.size());
  for (const auto& [line, places] : distinct) {
    const std::size_t cluster = miner.Add(Split(line));
    for (const std::size_t place : places) cluster_of[place] = cluster;
  }
  // Clusters that came to the same text are one template.
  const std::vector<std::string> texts = miner.Texts();
  std::map<std::string_view, int32_t> number;
  for (const std::string& text : texts) number.emplace(text, 0);
  LogTemplates found;
  for (auto& [text, index] : number) {
    index = static_cast<int32_t>(found.templates.size());
    found.templates.push_back({std::string(text), 0});
  }
  for (const std::size_t cluster : cluster_of) {
    found.of.push_back(number.at(texts[cluster]));
    ++found.templates[static_cast<std::size_t>(found.of.back())].lines;
  }
  return found;
}

}  // namespace teller::reconstruct
