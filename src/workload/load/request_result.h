#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace teller::load {

/// What a client saw of one request. Times on CLOCK_MONOTONIC.
struct RequestResult {
  int64_t index = 0;
  std::string id;        ///< the X-Request-Id sent
  int64_t begin_ns = 0;  ///< just before it was sent
  int64_t end_ns = 0;
  std::vector<int64_t> token_ns;  ///< when each piece of output came
  int prompt_tokens = 0;
  int output_tokens = 0;      ///< as the server counted them, else the pieces that came
  std::string status = "ok";  ///< else a word: 'unreachable', 'http_503', 'cut_short', ...
  std::string reason;         ///< of a failure, one line

  bool ok() const { return status == "ok"; }
  bool interrupted() const { return status == "interrupted"; }  ///< by a signal to us: no failure
  int64_t ttft_ns() const { return token_ns.empty() ? -1 : token_ns.front() - begin_ns; }
  /// Mean time between output tokens; -1 with fewer than two.
  int64_t tpot_ns() const {
    if (token_ns.size() < 2) return -1;
    return (token_ns.back() - token_ns.front()) / static_cast<int64_t>(token_ns.size() - 1);
  }
};

}  // namespace teller::load
