#include "src/workload/load/arrivals.h"

#include <array>
#include <charconv>
#include <cmath>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/random.h"

namespace teller::load {
namespace {

constexpr int kMaxTokens = 1 << 20;

template <typename Number>
bool ParseWhole(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// One line of a trace: arrival_s,prompt_tokens,output_tokens.
bool ParseArrival(std::string_view line, Arrival& arrival) {
  const std::size_t first = line.find(','), second = line.find(',', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return false;
  double seconds = 0;
  const bool read = ParseWhole(line.substr(0, first), seconds) &&
                    ParseWhole(line.substr(first + 1, second - first - 1), arrival.prompt_tokens) &&
                    ParseWhole(line.substr(second + 1), arrival.output_tokens);
  if (!read || !(seconds >= 0 && seconds < 1e7)) return false;
  arrival.offset_ns = static_cast<int64_t>(seconds * 1e9);
  return arrival.prompt_tokens >= 1 && arrival.prompt_tokens <= kMaxTokens &&
         arrival.output_tokens >= 1 && arrival.output_tokens <= kMaxTokens;
}

std::vector<Arrival> ReadTrace(const std::filesystem::path& path) {
  const std::string text = ReadFile(path, std::size_t{256} << 20);
  std::vector<Arrival> arrivals;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 && line.starts_with("arrival_s")) continue;
    Arrival arrival{.index = static_cast<int64_t>(arrivals.size())};
    const bool in_order = ParseArrival(line, arrival) &&
                          (arrivals.empty() || arrival.offset_ns >= arrivals.back().offset_ns);
    if (!in_order) {
      throw DataError(path.string() + ":" + std::to_string(number) + ": '" +
                      std::string(line.substr(0, 60)) +
                      "' is no arrival_s,prompt_tokens,output_tokens with times that never fall");
    }
    arrivals.push_back(arrival);
  }
  if (arrivals.empty()) throw DataError(path.string() + ": holds no arrivals");
  return arrivals;
}

}  // namespace

LengthRange LengthRange::Parse(std::string_view text, std::string_view what) {
  const std::size_t colon = text.find(':');
  LengthRange range;
  const bool read =
      ParseWhole(text.substr(0, colon), range.low) &&
      (colon == std::string_view::npos ? (range.high = range.low, true)
                                       : ParseWhole(text.substr(colon + 1), range.high));
  if (!read || range.low < 1 || range.high < range.low || range.high > kMaxTokens) {
    throw ConfigError(
        std::string(what) + " '" + std::string(text) +
        "': expected N or LOW:HIGH with 1 <= LOW <= HIGH <= " + std::to_string(kMaxTokens));
  }
  return range;
}

Arrivals::Arrivals(const ArrivalOptions& options) : options_(options) {
  if (!options.trace.empty()) trace_ = ReadTrace(options.trace);
}

std::optional<Arrival> Arrivals::Next() {
  if (options_.requests > 0 && next_ >= options_.requests) return std::nullopt;
  if (!trace_.empty()) {
    if (next_ >= static_cast<int64_t>(trace_.size())) return std::nullopt;
    return trace_[static_cast<std::size_t>(next_++)];
  }
  Random random(options_.seed, "arrival." + std::to_string(next_));
  if (options_.rate_per_s > 0) time_s_ += -std::log(1.0 - random.Uniform()) / options_.rate_per_s;
  return Arrival{.index = next_++,
                 .offset_ns = static_cast<int64_t>(time_s_ * 1e9),
                 .prompt_tokens =
                     static_cast<int>(random.UniformInt(options_.prompt.low, options_.prompt.high)),
                 .output_tokens = static_cast<int>(
                     random.UniformInt(options_.output.low, options_.output.high))};
}

std::vector<int32_t> PromptIds(uint64_t seed, const Arrival& arrival, int vocabulary) {
  Random random(seed, "prompt." + std::to_string(arrival.index));
  std::vector<int32_t> ids;
  for (int i = 0; i < arrival.prompt_tokens; ++i) {
    ids.push_back(static_cast<int32_t>(random.UniformInt(3, vocabulary - 1)));
  }
  return ids;
}

std::string PromptText(uint64_t seed, const Arrival& arrival) {
  static constexpr std::array<std::string_view, 16> kWords = {
      "the", "a",     "rank", "step",  "waits", "for",   "link", "slow",
      "and", "block", "of",   "token", "is",    "ready", "when", "it"};
  Random random(seed, "prompt." + std::to_string(arrival.index));
  std::string text;
  for (int i = 0; i < arrival.prompt_tokens; ++i) {
    if (i > 0) text += ' ';
    text += kWords[static_cast<std::size_t>(random.UniformInt(0, kWords.size() - 1))];
  }
  return text;
}

}  // namespace teller::load
