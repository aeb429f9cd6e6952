#include "src/reconstruct/symbol.h"

#include <algorithm>
#include <array>
#include <utility>

namespace teller::reconstruct {
namespace {

constexpr std::size_t kMaxSymbolBytes = 96;
constexpr std::size_t kMaxNameBytes = 4096;  // of a name that is looked at
constexpr std::size_t kMinIdLength = 8;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsWord(char c) { return IsDigit(c) || IsLetter(c) || c == '_'; }

std::string Squeezed(std::string_view name) {
  std::string squeezed;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') squeezed.push_back(static_cast<char>(c - 'A' + 'a'));
    if ((c >= 'a' && c <= 'z')) squeezed.push_back(c);
  }
  return squeezed;
}

// Longer words first: 'reducescatter' holds 'scatter' and 'reduce'.
std::string_view Collective(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"reducescatter", "reduce_scatter"},
      {"allreduce", "all_reduce"},
      {"allgather", "all_gather"},
      {"alltoall", "all_to_all"},
      {"broadcast", "broadcast"},
      {"barrier", "barrier"},
      {"sendrecv", "send_recv"},
      {"gather", "gather"},
      {"scatter", "scatter"},
      {"reduce", "reduce"},
      {"send", "send"},
      {"recv", "recv"},
      {"receive", "recv"}};
  const std::string squeezed = Squeezed(name);
  for (const auto& [word, symbol] : kWords) {
    if (squeezed.find(word) != std::string::npos) return symbol;
  }
  return {};
}

bool IsExecuteRange(std::string_view name) {
  return name.starts_with("execute_") && name.find("context_") != std::string_view::npos &&
         name.find("_generation_") != std::string_view::npos;
}

// Without what stands in `open`..`close`, nested ones included; a `close` without `open` stays.
std::string WithoutBracketed(std::string_view text, char open, char close) {
  std::string kept;
  int depth = 0;
  for (const char c : text) {
    if (c == open) ++depth;
    if (depth == 0) kept.push_back(c);
    if (c == close && depth > 0) --depth;
  }
  return kept;
}

std::string Without(std::string text, std::string_view part) {
  for (std::size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

std::string DeviceSymbol(std::string_view name) {
  std::string symbol = Without(std::string(name), "(anonymous namespace)::");
  const bool copy = symbol.starts_with("Memcpy") || symbol.starts_with("Memset");
  symbol = WithoutBracketed(symbol, '(', ')');
  if (!copy) symbol = WithoutBracketed(symbol, '<', '>');
  if (symbol.starts_with("void ")) symbol.erase(0, 5);
  return symbol;
}

// A word of letters and digits that names one thing of many: an address, or eight and more
// hexadecimal digits.
bool LooksLikeId(std::string_view word) {
  if (word.starts_with("0x") && word.size() > 2) return true;
  const bool digits = std::ranges::any_of(word, IsDigit);
  return digits && word.size() >= kMinIdLength && std::ranges::all_of(word, IsHex);
}

// A number that is not part of a word: nothing but separators around it.
bool IsFreeNumber(std::string_view word) { return std::ranges::all_of(word, IsDigit); }

// '#' for 'cmpl-17', '550e8400-e29b-41d4': words joined by '-' of which one holds a digit.
bool IsHyphenatedId(std::string_view token) {
  return token.find('-') != std::string_view::npos && std::ranges::any_of(token, IsDigit) &&
         std::ranges::all_of(token, [](char c) { return IsWord(c) || c == '-'; });
}

std::string MaskedWord(std::string_view word) {
  if (LooksLikeId(word)) return "#";
  // Parts between underscores: 'layer_12_mlp' is 'layer_#_mlp', 'gemm_128x64' stays.
  std::string masked;
  std::size_t first = 0;
  while (first <= word.size()) {
    const std::size_t last = std::min(word.find('_', first), word.size());
    const std::string_view part = word.substr(first, last - first);
    masked += !part.empty() && IsFreeNumber(part) ? "#" : part;
    if (last < word.size()) masked.push_back('_');
    first = last + 1;
  }
  return masked;
}

std::string MaskedToken(std::string_view token) {
  if (IsHyphenatedId(token)) return "#";
  std::string masked;
  for (std::size_t first = 0; first < token.size();) {
    std::size_t last = first;
    while (last < token.size() && IsWord(token[last])) ++last;
    if (last == first) {
      masked.push_back(token[first++]);
      continue;
    }
    masked += MaskedWord(token.substr(first, last - first));
    first = last;
  }
  return masked;
}

std::string MaskIds(std::string_view text) {
  std::string masked;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t last = std::min(text.find(' ', first), text.size());
    masked += MaskedToken(text.substr(first, last - first));
    if (last < text.size()) masked.push_back(' ');
    first = last + 1;
  }
  return masked;
}

std::string Finished(std::string symbol) {
  for (char& c : symbol) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  const std::size_t first = symbol.find_first_not_of(' ');
  if (first == std::string::npos) return "(unnamed)";
  symbol.erase(0, first);
  if (symbol.size() > kMaxSymbolBytes) {
    std::size_t end = kMaxSymbolBytes;
    while (end > 0 && (static_cast<unsigned char>(symbol[end]) & 0xc0) == 0x80)
      --end;  // whole UTF-8 sequences
    symbol.resize(end);
  }
  symbol.erase(symbol.find_last_not_of(' ') + 1);
  return symbol;
}

}  // namespace

std::string NormalizeSymbol(std::string_view name, trace::Layer layer) {
  name = name.substr(0, kMaxNameBytes);
  if (layer == trace::Layer::kComm) {
    if (const std::string_view collective = Collective(name); !collective.empty())
      return std::string(collective);
  }
  if (layer == trace::Layer::kEngine) {
    if (IsExecuteRange(name)) return "execute";
    if (name.starts_with("step[")) return "step";
  }
  if (layer == trace::Layer::kDevice || layer == trace::Layer::kComm)
    return Finished(DeviceSymbol(name));
  return Finished(MaskIds(name));
}

std::string NormalizeSymbol(std::string_view name, std::string_view layer) {
  for (int code = 0; code < trace::kLayerCount; ++code) {
    if (LayerName(static_cast<trace::Layer>(code)) == layer)
      return NormalizeSymbol(name, static_cast<trace::Layer>(code));
  }
  return NormalizeSymbol(name, trace::Layer::kBackend);
}

}  // namespace teller::reconstruct
