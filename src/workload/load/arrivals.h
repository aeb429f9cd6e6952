#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace teller::load {

/// Uniform over [low, high], both included.
struct LengthRange {
  int low = 64;
  int high = 64;
  /// 'N' or 'LOW:HIGH', above zero. Throws ConfigError; `what` names the option.
  static LengthRange Parse(std::string_view text, std::string_view what);
};

/// One request to come.
struct Arrival {
  int64_t index = 0;
  int64_t offset_ns =
      0;  ///< after the start of the load; 0 in a closed loop: as soon as a connection is free
  int prompt_tokens = 0;
  int output_tokens = 0;
};

/// Which requests come when. The same options give the same requests.
struct ArrivalOptions {
  uint64_t seed = 1;
  LengthRange prompt, output;
  int64_t requests = 0;         ///< 0: no limit
  double rate_per_s = 0;        ///< above zero: Poisson arrivals
  std::filesystem::path trace;  ///< not empty: CSV of arrivals and lengths
};

class Arrivals {
 public:
  /// Throws DataError where the trace cannot be read: file, line, what was found.
  explicit Arrivals(const ArrivalOptions& options);
  /// Nothing after the last one. Not thread-safe.
  std::optional<Arrival> Next();
  bool open_loop() const { return !trace_.empty() || options_.rate_per_s > 0; }

 private:
  ArrivalOptions options_;
  std::vector<Arrival> trace_;
  int64_t next_ = 0;
  double time_s_ = 0;
};

/// The token ids of a prompt, in [3, vocabulary): the first three are control pieces in most
/// vocabularies.
std::vector<int32_t> PromptIds(uint64_t seed, const Arrival& arrival, int vocabulary);

/// A prompt of about as many words.
std::string PromptText(uint64_t seed, const Arrival& arrival);

}  // namespace teller::load
