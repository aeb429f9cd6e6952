#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace teller {

/// A seeded generator (xoshiro256**, Blackman and Vigna 2018, seeded by SplitMix64) whose numbers
/// are the same with every compiler and standard library, unlike the distributions of <random>.
class Random {
 public:
  explicit Random(uint64_t seed);
  /// A generator of its own for a named part, so that adding a draw in one part moves no other.
  Random(uint64_t seed, std::string_view part);

  uint64_t Next();
  /// Uniform in [0, 1).
  double Uniform();
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  /// Uniform in [low, high], both included, without modulo bias.
  int64_t UniformInt(int64_t low, int64_t high);
  /// exp of a uniform number between log(low) and log(high); both above zero.
  double LogUniform(double low, double high);
  /// Standard normal (Box-Muller).
  double Normal();
  bool Bernoulli(double probability) { return Uniform() < probability; }

  template <typename T>
  void Shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1],
                items[static_cast<std::size_t>(UniformInt(0, static_cast<int64_t>(i) - 1))]);
    }
  }

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace teller
