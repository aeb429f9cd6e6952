#include "src/core/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "src/core/error.h"
#include "src/core/hash.h"

namespace teller {
namespace {

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = SplitMix64(seed);
}

Random::Random(uint64_t seed, std::string_view part) : Random(seed ^ Hash64(part)) {}

uint64_t Random::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

int64_t Random::UniformInt(int64_t low, int64_t high) {
  TELLER_CHECK(low <= high);
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (span == 0) return static_cast<int64_t>(Next());
  const uint64_t limit = UINT64_MAX - UINT64_MAX % span;
  uint64_t draw = Next();
  while (draw >= limit) draw = Next();
  return static_cast<int64_t>(static_cast<uint64_t>(low) + draw % span);
}

double Random::LogUniform(double low, double high) {
  TELLER_CHECK(low > 0 && low <= high);
  return std::exp(Uniform(std::log(low), std::log(high)));
}

double Random::Normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * Uniform());
}

}  // namespace teller
