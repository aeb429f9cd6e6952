#include "src/core/secret_mask.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>

namespace teller {
namespace {

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A token that is known by its first characters, and the least number of characters after them.
struct KnownPrefix {
  std::string_view text;
  std::size_t min_tail;
};

constexpr std::array<KnownPrefix, 19> kKnownPrefixes = {{{"hf_", 16},
                                                         {"sk-", 16},
                                                         {"sk_live_", 12},
                                                         {"sk_test_", 12},
                                                         {"ghp_", 20},
                                                         {"gho_", 20},
                                                         {"ghs_", 20},
                                                         {"ghu_", 20},
                                                         {"github_pat_", 20},
                                                         {"glpat-", 16},
                                                         {"AKIA", 16},
                                                         {"ASIA", 16},
                                                         {"AIza", 30},
                                                         {"xoxb-", 10},
                                                         {"xoxp-", 10},
                                                         {"nvapi-", 16},
                                                         {"pypi-", 16},
                                                         {"dop_v1_", 16},
                                                         {"eyJ", 24}}};

// Words that make a key name a secret wherever they stand in it.
constexpr std::array<std::string_view, 13> kSecretWords = {
    "password",   "passwd",    "passphrase", "secret",      "api_key",       "apikey",    "api-key",
    "access_key", "accesskey", "access-key", "private_key", "authorization", "credential"};

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

bool IsTokenCharacter(char c) {
  return IsWordCharacter(c) || c == '.' || c == '+' || c == '/' || c == '=';
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// 'token' counts only as the last word of a key: max_tokens and tokenizer are no secrets.
bool EndsInTokenWord(std::string_view key) {
  constexpr std::string_view kToken = "token";
  if (!key.ends_with(kToken)) return false;
  return key.size() == kToken.size() ||
         !std::isalpha(static_cast<unsigned char>(key[key.size() - 6]));
}

bool KeyNamesSecret(std::string_view key) {
  const std::string lower = Lower(key);
  if (EndsInTokenWord(lower)) return true;
  return std::any_of(kSecretWords.begin(), kSecretWords.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool IsNumber(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
  });
}

/// The value after a key that names a secret, without quotes; none where what follows is no value.
std::optional<Span> ValueAfterKey(std::string_view line, std::size_t key_begin,
                                  std::size_t key_end) {
  std::size_t at = key_end;
  if (at < line.size() && (line[at] == '"' || line[at] == '\'')) ++at;
  const bool is_option = line[key_begin] == '-';
  std::size_t after_space = at;
  while (after_space < line.size() && line[after_space] == ' ') ++after_space;
  if (after_space < line.size() && (line[after_space] == '=' || line[after_space] == ':')) {
    at = after_space + 1;
  } else if (!is_option || after_space == at) {
    return std::nullopt;
  }
  while (at < line.size() && line[at] == ' ') ++at;
  if (at >= line.size()) return std::nullopt;
  if (line[at] == '"' || line[at] == '\'') {
    const std::size_t close = line.find(line[at], at + 1);
    return Span{at + 1, close == std::string_view::npos ? line.size() : close};
  }
  std::size_t end = at;
  while (end < line.size() && line[end] != ' ' && line[end] != ',' && line[end] != ';' &&
         line[end] != '&' && line[end] != '}' && line[end] != ')' && line[end] != '\t') {
    ++end;
  }
  return Span{at, end};
}

bool LooksLikeSecretValue(std::string_view key, std::string_view value) {
  if (value.empty() || value == kSecretMask || value == "None" || value == "null" ||
      value == "True" || value == "False" || value == "true" || value == "false") {
    return false;
  }
  if (value.front() == '<') return false;  // special tokens of a vocabulary, <redacted>
  if (!EndsInTokenWord(Lower(key))) return true;
  return value.size() >= 8 && !IsNumber(value);
}

/// The password of 'scheme://user:password@host' whose "://" stands at `at`.
std::optional<Span> UrlPassword(std::string_view line, std::size_t at) {
  const std::size_t begin = at + 3;
  std::size_t colon = std::string_view::npos;
  for (std::size_t i = begin; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '@')
      return colon == std::string_view::npos ? std::nullopt : std::optional(Span{colon + 1, i});
    if (c == '/' || c == ' ' || c == '"' || c == '\'') return std::nullopt;
    if (c == ':' && colon == std::string_view::npos) colon = i;
  }
  return std::nullopt;
}

/// The token of 'Bearer TOKEN' or 'Basic TOKEN' where the word ends at `end`.
std::optional<Span> SchemeToken(std::string_view line, std::string_view word, std::size_t end) {
  const std::string lower = Lower(word);
  if ((lower != "bearer" && lower != "basic") || end >= line.size() || line[end] != ' ')
    return std::nullopt;
  std::size_t stop = end + 1;
  while (stop < line.size() && IsTokenCharacter(line[stop])) ++stop;
  if (stop - end - 1 < 12) return std::nullopt;
  return Span{end + 1, stop};
}

std::optional<Span> KnownToken(std::string_view line, std::size_t begin) {
  for (const KnownPrefix& prefix : kKnownPrefixes) {
    if (line.compare(begin, prefix.text.size(), prefix.text) != 0) continue;
    std::size_t end = begin + prefix.text.size();
    while (end < line.size() && (IsWordCharacter(line[end]) || line[end] == '.')) ++end;
    if (end - begin - prefix.text.size() >= prefix.min_tail) return Span{begin, end};
  }
  return std::nullopt;
}

/// The secret that the word [begin, end) is or announces.
std::optional<Span> SecretAt(std::string_view line, std::size_t begin, std::size_t end) {
  if (auto token = KnownToken(line, begin)) return token;
  const std::string_view word = line.substr(begin, end - begin);
  if (auto token = SchemeToken(line, word, end)) return token;
  if (!KeyNamesSecret(word)) return std::nullopt;
  auto value = ValueAfterKey(line, begin, end);
  if (!value) return std::nullopt;
  const std::string_view text = line.substr(value->begin, value->end - value->begin);
  const std::string lower = Lower(text);
  if (lower == "bearer" || lower == "basic") {  // Authorization: Bearer TOKEN
    auto token = SchemeToken(line, text, value->end);
    return token ? token : std::nullopt;
  }
  return LooksLikeSecretValue(word, text) ? value : std::nullopt;
}

}  // namespace

std::string MaskSecrets(std::string_view line) {
  std::string out;
  std::size_t copied = 0;
  std::size_t at = 0;
  const auto mask = [&](const Span& secret) {
    out.append(line, copied, secret.begin - copied).append(kSecretMask);
    copied = secret.end;
    at = secret.end;
  };
  while (at < line.size()) {
    if (line.compare(at, 3, "://") == 0) {
      if (auto password = UrlPassword(line, at)) {
        mask(*password);
        continue;
      }
    }
    if (!IsWordCharacter(line[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < line.size() && IsWordCharacter(line[end])) ++end;
    if (auto secret = SecretAt(line, at, end)) {
      mask(*secret);
    } else {
      at = end;
    }
  }
  if (copied == 0 && out.empty()) return std::string(line);
  return out.append(line, copied, line.size() - copied);
}

std::string SecretMasker::Mask(std::string_view line) {
  const bool begins = line.find("-----BEGIN") != std::string_view::npos &&
                      line.find("PRIVATE KEY-----") != std::string_view::npos;
  const bool ends = line.find("-----END") != std::string_view::npos;
  const bool inside = in_key_block_ || begins;
  in_key_block_ = inside && !ends;
  return inside ? std::string(kSecretMask) : MaskSecrets(line);
}

}  // namespace teller
