#include "src/interop/decimal.h"

#include <cctype>
#include <limits>

namespace teller::interop {
namespace {

constexpr int kMaxExponent = 64;  // beyond it a number is zero or does not fit

/// digits x 10^exponent, as written.
struct Decimal {
  bool negative = false;
  std::string_view digits;  // with at most one '.' inside
  int exponent = 0;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' ||
                           text.back() == '\t')) {
    text.remove_suffix(1);
  }
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  return text;
}

bool TakeSign(std::string_view& text) {
  if (text.empty() || (text.front() != '-' && text.front() != '+')) return false;
  const bool negative = text.front() == '-';
  text.remove_prefix(1);
  return negative;
}

/// The exponent after 'e', clamped to +-kMaxExponent; none where it is no number.
std::optional<int> ParseExponent(std::string_view text) {
  const bool negative = TakeSign(text);
  if (text.empty()) return std::nullopt;
  int exponent = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    if (exponent < kMaxExponent) exponent = exponent * 10 + (c - '0');
  }
  if (exponent > kMaxExponent) exponent = kMaxExponent;
  return negative ? -exponent : exponent;
}

std::optional<Decimal> ParseDecimal(std::string_view text) {
  Decimal decimal;
  text = Trim(text);
  decimal.negative = TakeSign(text);
  std::size_t end = 0;
  int points = 0;
  int digits = 0;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == '.')) {
    points += text[end] == '.' ? 1 : 0;
    digits += text[end] == '.' ? 0 : 1;
    ++end;
  }
  if (points > 1 || digits == 0) return std::nullopt;
  decimal.digits = text.substr(0, end);
  text.remove_prefix(end);
  if (text.empty()) return decimal;
  if (text.front() != 'e' && text.front() != 'E') return std::nullopt;
  const auto exponent = ParseExponent(text.substr(1));
  if (!exponent) return std::nullopt;
  decimal.exponent = *exponent;
  return decimal;
}

bool AppendDigit(uint64_t& magnitude, int digit) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  if (magnitude > (kMax - static_cast<uint64_t>(digit)) / 10) return false;
  magnitude = magnitude * 10 + static_cast<uint64_t>(digit);
  return true;
}

struct Scaled {
  uint64_t magnitude = 0;
  bool exact = true;  // nothing but zeros was cut off
  int first_cut_digit = 0;
};

/// The digits x 10^(exponent + shift), cut below one; none where it overflows 64 bits.
std::optional<Scaled> Scale(const Decimal& decimal, int shift) {
  const std::size_t point = decimal.digits.find('.');
  const auto whole =
      static_cast<int64_t>(point == std::string_view::npos ? decimal.digits.size() : point);
  const int64_t kept = whole + decimal.exponent + shift;  // digits in front of the shifted point
  Scaled scaled;
  int64_t seen = 0;
  for (const char c : decimal.digits) {
    if (c == '.') continue;
    const int digit = c - '0';
    if (seen < kept) {
      if (!AppendDigit(scaled.magnitude, digit)) return std::nullopt;
    } else {
      if (seen == kept) scaled.first_cut_digit = digit;
      scaled.exact = scaled.exact && digit == 0;
    }
    ++seen;
  }
  for (; seen < kept; ++seen) {
    if (!AppendDigit(scaled.magnitude, 0)) return std::nullopt;
  }
  return scaled;
}

std::optional<int64_t> Signed(bool negative, uint64_t magnitude) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (magnitude > kMax) return std::nullopt;
  const auto value = static_cast<int64_t>(magnitude);
  return negative ? -value : value;
}

/// The plain case of a trace: digits, a point, up to three digits.
std::optional<int64_t> FastMicroseconds(std::string_view text) {
  uint64_t value = 0;
  std::size_t i = 0;
  while (i < text.size() && IsDigit(text[i]))
    value = value * 10 + static_cast<uint64_t>(text[i++] - '0');
  if (i == 0 || i > 15) return std::nullopt;  // 16 digits may not fit as nanoseconds
  value *= 1000;
  if (i == text.size()) return static_cast<int64_t>(value);
  if (text[i] != '.' || text.size() - i > 4 || text.size() - i < 2) return std::nullopt;
  uint64_t scale = 100;
  for (++i; i < text.size(); ++i, scale /= 10) {
    if (!IsDigit(text[i])) return std::nullopt;
    value += static_cast<uint64_t>(text[i] - '0') * scale;
  }
  return static_cast<int64_t>(value);
}

}  // namespace

std::optional<int64_t> MicrosecondsToNs(std::string_view text) {
  if (const auto fast = FastMicroseconds(text)) return fast;
  const auto decimal = ParseDecimal(text);
  if (!decimal) return std::nullopt;
  auto scaled = Scale(*decimal, 3);
  if (!scaled) return std::nullopt;
  const bool round_up = scaled->first_cut_digit >= 5;
  if (round_up && scaled->magnitude == std::numeric_limits<uint64_t>::max()) return std::nullopt;
  return Signed(decimal->negative, scaled->magnitude + (round_up ? 1 : 0));
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  const auto decimal = ParseDecimal(text);
  if (!decimal) return std::nullopt;
  const auto scaled = Scale(*decimal, 0);
  if (!scaled || !scaled->exact) return std::nullopt;
  return Signed(decimal->negative, scaled->magnitude);
}

std::optional<uint64_t> ParseUnsigned(std::string_view text) {
  const auto decimal = ParseDecimal(text);
  if (!decimal || (decimal->negative && !decimal->digits.empty() && decimal->digits != "0"))
    return std::nullopt;
  const auto scaled = Scale(*decimal, 0);
  if (!scaled || !scaled->exact) return std::nullopt;
  return scaled->magnitude;
}

}  // namespace teller::interop
