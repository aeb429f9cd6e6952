#include "src/reconstruct/log_time.h"

#include <array>
#include <chrono>
#include <cstdlib>

namespace teller::reconstruct {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000, kMinuteNs = 60 * kSecondNs, kDayNs = 1440 * kMinuteNs;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Takes a text apart from its begin.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool AtEnd() const { return rest_.empty(); }
  std::size_t Digits() const {
    std::size_t count = 0;
    while (count < rest_.size() && IsDigit(rest_[count])) ++count;
    return count;
  }
  /// A number of exactly `digits` digits.
  std::optional<int32_t> Number(std::size_t digits) {
    if (rest_.size() < digits || digits > 9) return std::nullopt;
    int32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (!IsDigit(rest_[i])) return std::nullopt;
      value = 10 * value + (rest_[i] - '0');
    }
    rest_.remove_prefix(digits);
    return value;
  }
  bool Skip(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  /// The separator, where it is one of those allowed.
  std::optional<char> Any(std::string_view allowed) {
    if (rest_.empty() || allowed.find(rest_[0]) == std::string_view::npos) return std::nullopt;
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }
  char Peek(std::size_t at) const { return at < rest_.size() ? rest_[at] : '\0'; }

 private:
  std::string_view rest_;
};

/// '2026-12-01 ', '2026/12/01T', '12-01 ', '1201 ', or nothing where the clock stands alone.
bool TakeDate(Cursor& text, LogTime& time) {
  const std::size_t digits = text.Digits();
  const char behind = text.Peek(digits);
  if (digits == 4 && (behind == '-' || behind == '/')) {
    time.year = text.Number(4);
    text.Any("-/");
    time.month = text.Number(2);
    if (!text.Any("-/")) return false;
    time.day = text.Number(2);
  } else if (digits == 2 && (behind == '-' || behind == '/')) {
    time.month = text.Number(2);
    text.Any("-/");
    time.day = text.Number(2);
  } else if (digits == 4 && behind == ' ') {
    time.month = text.Number(2);
    time.day = text.Number(2);
  } else {
    return digits == 1 || digits == 2;
  }
  return time.month && time.day && *time.month >= 1 && *time.month <= 12 && *time.day >= 1 &&
         *time.day <= 31 && text.Any(" T_").has_value();
}

bool TakeClock(Cursor& text, LogTime& time) {
  const auto hour = text.Number(text.Digits());
  if (!hour || *hour > 23 || !text.Skip(":")) return false;
  const auto minute = text.Number(2);
  if (!minute || *minute > 59 || !text.Skip(":")) return false;
  const auto second = text.Number(2);
  if (!second || *second > 60) return false;
  time.of_day_ns = (*hour * int64_t{60} + *minute) * kMinuteNs + *second * kSecondNs;
  time.resolution_ns = kSecondNs;
  if (!text.Any(".,")) return true;
  const std::size_t digits = text.Digits();
  const auto fraction = text.Number(digits);
  if (!fraction || digits == 0) return false;
  for (std::size_t i = 0; i < digits; ++i) time.resolution_ns /= 10;
  time.of_day_ns += *fraction * time.resolution_ns;
  return true;
}

/// 'Z', ' UTC', '+01:00', ' -0530', or nothing.
bool TakeZone(Cursor& text, LogTime& time) {
  text.Any(" ");
  if (text.AtEnd()) return true;
  if (text.Skip("Z") || text.Skip("UTC") || text.Skip("GMT")) {
    time.zone_minutes = 0;
    return text.AtEnd();
  }
  const auto sign = text.Any("+-");
  const auto hours = sign ? text.Number(2) : std::nullopt;
  if (!hours || *hours > 14) return false;
  text.Skip(":");
  const auto minutes = text.AtEnd() ? std::optional<int32_t>(0) : text.Number(2);
  if (!minutes || *minutes > 59 || !text.AtEnd()) return false;
  time.zone_minutes = (*sign == '-' ? -1 : 1) * (*hours * 60 + *minutes);
  return true;
}

int64_t DayNumber(std::chrono::year_month_day day) {
  return std::chrono::sys_days(day).time_since_epoch().count();
}

}  // namespace

std::optional<LogTime> ReadLogTime(std::string_view text) {
  LogTime time;
  Cursor cursor(text);
  if (TakeDate(cursor, time) && TakeClock(cursor, time) && TakeZone(cursor, time)) return time;
  return std::nullopt;
}

std::optional<int64_t> ResolveLogTime(const LogTime& time, int64_t near_ns, int32_t zone_minutes) {
  using namespace std::chrono;
  const int64_t shift_ns = time.of_day_ns - time.zone_minutes.value_or(zone_minutes) * kMinuteNs;
  const int64_t near_day = near_ns / kDayNs;
  std::optional<int64_t> best;
  const auto offer = [&](int64_t day) {
    const int64_t moment_ns = day * kDayNs + shift_ns;
    if (!best || std::llabs(moment_ns - near_ns) < std::llabs(*best - near_ns)) best = moment_ns;
  };
  if (!time.month) {
    for (const int64_t day : {near_day - 1, near_day, near_day + 1}) offer(day);
    return best;
  }
  const year near_year = year_month_day(sys_days(days(near_day))).year();
  const auto offer_year = [&](year y) {
    const year_month_day date(y, month(static_cast<unsigned>(*time.month)),
                              day(static_cast<unsigned>(*time.day)));
    if (date.ok()) offer(DayNumber(date));
  };
  if (time.year) {
    offer_year(year(*time.year));
  } else {
    for (const int shift : {-1, 0, 1}) offer_year(near_year + years(shift));
  }
  return best;
}

}  // namespace teller::reconstruct
