#include "src/reconstruct/log_line.h"

#include <algorithm>
#include <array>
#include <utility>

namespace teller::reconstruct {
namespace {

constexpr std::size_t kMaxPrefix = 96;  // of '(process)' and the like
constexpr std::size_t kMaxMasked = 512;
constexpr std::size_t kMinHexId = 8;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool HasDigit(std::string_view text) { return std::ranges::any_of(text, IsDigit); }
bool AllDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsDigit);
}

void SkipBlanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
}

// The first word and, with `take`, the text behind it.
std::string_view FirstWord(std::string_view text) { return text.substr(0, text.find(' ')); }
std::string_view TakeWord(std::string_view& text) {
  const std::string_view word = FirstWord(text);
  text.remove_prefix(word.size());
  SkipBlanks(text);
  return word;
}

bool IsLevel(std::string_view word) {
  static constexpr std::array<std::string_view, 8> kLevels = {
      "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", "TRACE"};
  return std::ranges::find(kLevels, word) != kLevels.end();
}

// 12:00:00, 12:00:00.123, 12:00:00,123
bool IsClock(std::string_view word) {
  return word.size() >= 7 && IsDigit(word.front()) && std::ranges::count(word, ':') == 2 &&
         std::ranges::all_of(word,
                             [](char c) { return IsDigit(c) || c == ':' || c == '.' || c == ','; });
}

// 12-01, 2026-12-01, 2026/12/01, 2026-12-01T12:00:00Z
bool IsDate(std::string_view word) {
  if (word.size() < 5 || !IsDigit(word[0]) || !IsDigit(word[1])) return false;
  const std::size_t separator = word.find_first_not_of("0123456789");
  if (separator == std::string_view::npos || (word[separator] != '-' && word[separator] != '/'))
    return false;
  if (separator != 2 && separator != 4) return false;
  if (word[separator] == '/' && std::ranges::count(word, '/') != 2) return false;
  return std::ranges::all_of(word, [](char c) {
    return IsDigit(c) || std::string_view("-/T:.,Z+").find(c) != std::string_view::npos;
  });
}

bool IsLocation(std::string_view word) {
  const std::size_t dot = word.find('.');
  return dot != std::string_view::npos && dot > 0 && word.find(' ') == std::string_view::npos &&
         (word.find(".py") == dot || word.find(".cc") == dot || word.find(".cpp") == dot ||
          word.find(".h") == dot || word.find(".rs") == dot || word.find(".cu") == dot);
}

// '(EngineCore pid=12) ', '[rank0]: ', '[default0]:'
void TakeProcess(std::string_view& rest, ParsedLine& line) {
  const char open = rest.empty() ? ' ' : rest.front();
  if (open == '(') {
    const std::size_t close = rest.substr(0, kMaxPrefix).find(") ");
    if (close == std::string_view::npos) return;
    line.process = rest.substr(1, close - 1);
    rest.remove_prefix(close + 2);
  } else if (open == '[') {
    const std::size_t close = rest.substr(0, kMaxPrefix).find("]:");
    if (close == std::string_view::npos) return;
    line.process = rest.substr(1, close - 1);
    rest.remove_prefix(close + 2);
  }
  SkipBlanks(rest);
}

// '[2026-12-01 12:00:00 TP0] '
bool TakeBracketedTime(std::string_view& rest, ParsedLine& line) {
  if (rest.size() < 3 || rest[0] != '[' || !IsDigit(rest[1])) return false;
  const std::size_t close = rest.substr(0, kMaxPrefix).find(']');
  if (close == std::string_view::npos) return false;
  std::string_view inside = rest.substr(1, close - 1);
  const std::string_view date = TakeWord(inside);
  if (!IsDate(date) && !IsClock(date)) return false;
  line.time = date;
  if (IsClock(FirstWord(inside))) {
    const std::string_view clock = TakeWord(inside);
    line.time = {date.data(), static_cast<std::size_t>(clock.data() + clock.size() - date.data())};
  }
  if (!inside.empty()) line.process = inside;
  rest.remove_prefix(close + 1);
  SkipBlanks(rest);
  return true;
}

void TakeLevel(std::string_view& rest, ParsedLine& line) {
  if (!line.level.empty()) return;
  std::string_view word = FirstWord(rest);
  const std::string_view bare = word.substr(0, word.find(':'));
  if (!IsLevel(bare) || word.size() > bare.size() + 1) return;
  line.level = bare;
  TakeWord(rest);
}

void TakeTime(std::string_view& rest, ParsedLine& line) {
  if (!line.time.empty()) return;
  const std::string_view first = FirstWord(rest);
  if (!IsDate(first) && !IsClock(first)) return;
  TakeWord(rest);
  line.time = first;
  if (!IsClock(first) && IsClock(FirstWord(rest))) {
    const std::string_view clock = TakeWord(rest);
    line.time = {first.data(),
                 static_cast<std::size_t>(clock.data() + clock.size() - first.data())};
  }
}

void SkipDash(std::string_view& rest) {
  if (FirstWord(rest) == "-") TakeWord(rest);
}

// '[loggers.py:118] ', 'loggers.py:118] '
void TakeLocation(std::string_view& rest, ParsedLine& line) {
  const std::size_t close = rest.substr(0, kMaxPrefix).find(']');
  if (close == std::string_view::npos) return;
  std::string_view inside = rest.substr(0, close);
  if (inside.starts_with('[')) inside.remove_prefix(1);
  if (!IsLocation(inside)) return;
  line.location = inside;
  rest.remove_prefix(close + 1);
  SkipBlanks(rest);
}

// 'host:12:34 [0] NCCL INFO text'
bool TakeNccl(std::string_view& rest, ParsedLine& line) {
  const std::size_t at = rest.substr(0, 2 * kMaxPrefix).find("] NCCL ");
  if (at == std::string_view::npos || std::ranges::count(rest.substr(0, at), ':') < 2) return false;
  line.process = rest.substr(0, at + 1);
  line.location = rest.substr(at + 2, 4);
  rest.remove_prefix(at + 7);
  TakeLevel(rest, line);
  return true;
}

// '[W1201 12:00:00.123456 file.cpp:12] text', with or without the bracket
bool TakeGlog(std::string_view& rest, ParsedLine& line) {
  const std::size_t skip = rest.starts_with('[') ? 1 : 0;
  if (rest.size() < skip + 6 || std::string_view("IWEF").find(rest[skip]) == std::string_view::npos)
    return false;
  if (!AllDigits(rest.substr(skip + 1, 4))) return false;
  const std::size_t close = rest.substr(0, 2 * kMaxPrefix).find("] ");
  if (close == std::string_view::npos) return false;
  static constexpr std::pair<char, std::string_view> kLevels[] = {
      {'I', "INFO"}, {'W', "WARNING"}, {'E', "ERROR"}, {'F', "FATAL"}};
  for (const auto& [letter, level] : kLevels) {
    if (rest[skip] == letter) line.level = level;
  }
  std::string_view inside = rest.substr(skip + 1, close - skip - 1);
  line.time = inside.substr(0, inside.find(' ', 5));
  const std::size_t last = inside.rfind(' ');
  if (last != std::string_view::npos && IsLocation(inside.substr(last + 1)))
    line.location = inside.substr(last + 1);
  rest.remove_prefix(close + 2);
  return true;
}

}  // namespace

ParsedLine ParseLine(std::string_view text) {
  ParsedLine line;
  std::string_view rest = text;
  SkipBlanks(rest);
  if (!TakeNccl(rest, line) && !TakeGlog(rest, line)) {
    TakeProcess(rest, line);
    if (!TakeGlog(rest, line) && !TakeBracketedTime(rest, line)) {
      TakeLevel(rest, line);
      TakeTime(rest, line);
      SkipDash(rest);
      TakeLevel(rest, line);
      SkipDash(rest);
    }
    TakeLevel(rest, line);
    TakeLocation(rest, line);
  }
  line.message = rest;
  return line;
}

std::string CleanLine(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  if (const std::size_t redrawn = line.rfind('\r'); redrawn != std::string_view::npos)
    line.remove_prefix(redrawn + 1);
  std::string clean;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      // ESC [ parameters letter
      if (i + 1 < line.size() && line[i + 1] == '[') {
        i += 2;
        while (i < line.size() && !IsLetter(line[i])) ++i;
      }
      continue;
    }
    const auto byte = static_cast<unsigned char>(line[i]);
    clean.push_back(byte < 0x20 || byte == 0x7f ? ' ' : line[i]);
  }
  return clean;
}

namespace {

bool IsNumber(std::string_view word) {
  if (word.empty() || !HasDigit(word)) return false;
  if (word.front() == '-' || word.front() == '+' || word.front() == '~') word.remove_prefix(1);
  return std::ranges::all_of(word,
                             [](char c) { return IsDigit(c) || c == '.' || c == ',' || c == '/'; });
}

std::string_view UnitClass(std::string_view unit) {
  static constexpr std::array<std::string_view, 15> kTimes = {
      "ns",      "us",  "\xC2\xB5s", "ms",      "s", "sec",   "secs", "second",
      "seconds", "min", "mins",      "minutes", "h", "hours", "hour"};
  static constexpr std::array<std::string_view, 17> kSizes = {
      "B",     "KB",   "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB",
      "bytes", "byte", "kB", "K",  "M",  "G",   "Mi",  "Gi"};
  if (unit.find("/s") != std::string_view::npos || unit == "it/s" || unit.ends_with("/sec"))
    return "<rate>";
  if (std::ranges::find(kTimes, unit) != kTimes.end()) return "<duration>";
  if (std::ranges::find(kSizes, unit) != kSizes.end()) return "<size>";
  if (unit == "%") return "<percent>";
  return {};
}

bool IsAddress(std::string_view word) {
  if (word.find("://") != std::string_view::npos) return true;
  const std::size_t colon = word.rfind(':');
  const std::string_view host = word.substr(0, colon);
  const bool port = colon != std::string_view::npos && AllDigits(word.substr(colon + 1));
  const bool dotted = std::ranges::count(host, '.') == 3 &&
                      std::ranges::all_of(host, [](char c) { return IsDigit(c) || c == '.'; });
  return dotted ||
         (port && !host.empty() && std::ranges::any_of(host, IsLetter) &&
          host.find(' ') == std::string_view::npos && host.find(".py") == std::string_view::npos);
}

bool IsId(std::string_view word) {
  if (!HasDigit(word)) return false;
  if (word.starts_with("0x")) return true;
  const bool word_characters = std::ranges::all_of(
      word, [](char c) { return IsDigit(c) || IsLetter(c) || c == '-' || c == '_'; });
  if (!word_characters) return false;
  if (word.find("cmpl-") != std::string_view::npos || word.starts_with("req-") ||
      word.starts_with("req_"))
    return true;
  const std::size_t hyphen = word.find('-');
  if (hyphen != std::string_view::npos &&
      std::ranges::all_of(word, [](char c) { return IsHex(c) || c == '-'; }) &&
      word.size() >= kMinHexId) {
    return true;
  }
  return word.size() >= kMinHexId && std::ranges::all_of(word, IsHex);
}

// A file's path: three parts or more, so that '/v1/completions' is none.
bool IsPath(std::string_view word) {
  return word.front() == '/' && std::ranges::count(word, '/') >= 3 && HasDigit(word);
}

// What stands for a word without punctuation; empty: the word stays.
std::string_view MaskOf(std::string_view word) {
  if (word.empty()) return {};
  if (IsClock(word) || IsDate(word)) return "<time>";
  if (IsAddress(word)) return "<address>";
  if (IsPath(word)) return "<path>";
  if (IsNumber(word)) return "<n>";
  const std::size_t unit = word.find_last_of("0123456789.");
  if (unit != std::string_view::npos && unit + 1 < word.size() &&
      IsNumber(word.substr(0, unit + 1))) {
    const std::string_view mask = UnitClass(word.substr(unit + 1));
    if (!mask.empty()) return mask;
  }
  if (IsId(word)) return "<id>";
  return {};
}

constexpr std::string_view kOpeners = "([{\"'`<", kClosers = ")]}\"'`>,.;:!?";

// Masks the words of a message, one after another.
class Masker {
 public:
  std::string Run(std::string_view message) {
    while (!message.empty() && out_.size() < kMaxMasked) {
      const std::size_t blank = message.find_first_not_of(' ');
      if (blank == std::string_view::npos) break;
      message.remove_prefix(blank);
      const std::string_view token = FirstWord(message);
      message.remove_prefix(token.size());
      AddToken(token);
    }
    return std::move(out_);
  }

 private:
  void AddToken(std::string_view token) {
    std::size_t first = std::min(token.find_first_not_of(kOpeners), token.size());
    std::size_t last = token.find_last_not_of(kClosers);
    last = last == std::string_view::npos || last < first ? first : last + 1;
    const std::string_view core = token.substr(first, last - first);
    if (pending_number_ && FollowsNumber(core)) {
      out_ += token.substr(last);
      return;
    }
    if (!out_.empty()) out_.push_back(' ');
    out_ += token.substr(0, first);
    AddCore(core, token.size() == last);
    out_ += token.substr(last);
  }

  // '3.2 ms' is one duration, '3.2 tokens/s' a rate of tokens.
  bool FollowsNumber(std::string_view core) {
    pending_number_ = false;
    const std::string_view mask = UnitClass(core);
    if (mask.empty()) return false;
    out_.replace(out_.size() - 3, 3, mask);  // '<n>'
    if (mask != "<rate>") return true;
    return false;
  }

  void AddCore(std::string_view core, bool at_end_of_token) {
    const std::size_t equals = core.find('=');
    if (equals != std::string_view::npos && equals > 0 && equals + 1 < core.size()) {
      out_ += core.substr(0, equals + 1);
      core.remove_prefix(equals + 1);
      const std::size_t open = std::min(core.find_first_not_of(kOpeners), core.size());
      out_ += core.substr(0, open);
      core.remove_prefix(open);
    }
    const bool after_request = after_request_ && HasDigit(core);
    const std::string_view mask = after_request ? "<id>" : MaskOf(core);
    out_ += mask.empty() ? core : mask;
    pending_number_ = at_end_of_token && mask == "<n>";
    after_request_ = core == "request" || core == "Request" || core == "req" || core == "requests";
  }

  std::string out_;
  bool pending_number_ = false;
  bool after_request_ = false;
};

std::string_view FileOf(std::string_view location) {
  return location.substr(0, location.find(':'));
}

}  // namespace

std::string MaskLine(const ParsedLine& line) {
  std::string masked;
  if (!line.level.empty()) masked += std::string(line.level) + " ";
  if (!line.location.empty()) masked += std::string(FileOf(line.location)) + ": ";
  masked += Masker().Run(line.message);
  if (masked.size() > kMaxMasked) {
    std::size_t end = kMaxMasked;
    while (end > 0 && (static_cast<unsigned char>(masked[end]) & 0xc0) == 0x80) --end;
    masked.resize(end);
  }
  masked.erase(masked.find_last_not_of(' ') + 1);
  return masked;
}

std::vector<std::string_view> RequestIds(std::string_view message) {
  std::vector<std::string_view> ids;
  bool after_request = false;
  while (!message.empty()) {
    SkipBlanks(message);
    std::string_view word = FirstWord(message);
    message.remove_prefix(word.size());
    while (!word.empty() && kOpeners.find(word.front()) != std::string_view::npos)
      word.remove_prefix(1);
    while (!word.empty() && kClosers.find(word.back()) != std::string_view::npos)
      word.remove_suffix(1);
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos)
      word.remove_prefix(equals + 1);
    if (!word.empty() && HasDigit(word) && (after_request || IsId(word))) ids.push_back(word);
    after_request = word == "request" || word == "Request" || word == "req";
  }
  return ids;
}

}  // namespace teller::reconstruct
