#include "src/interop/event_class.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

namespace teller::interop {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t N>
bool ContainsAny(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return Contains(text, part); });
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

trace::Kind ApiKind(std::string_view name) {
  constexpr std::array<std::string_view, 4> kLaunches = {"LaunchKernel", "LaunchCooperativeKernel",
                                                         "GraphLaunch", "LaunchGrid"};
  constexpr std::array<std::string_view, 4> kCopies = {"Memcpy", "Memset", "MemPrefetch", "memcpy"};
  constexpr std::array<std::string_view, 2> kWaits = {"Synchronize", "StreamWait"};
  if (ContainsAny(name, kLaunches) || name == "cuLaunch") return trace::Kind::kLaunch;
  if (ContainsAny(name, kCopies)) return trace::Kind::kCopyCall;
  if (ContainsAny(name, kWaits)) return trace::Kind::kSyncCall;
  return trace::Kind::kApiOther;
}

bool IsCommKernel(std::string_view name) {
  constexpr std::array<std::string_view, 10> kNames = {"nccl",
                                                       "rccl",
                                                       "Nccl",
                                                       "NCCL",
                                                       "cross_device_reduce",
                                                       "one_shot_all_reduce",
                                                       "two_shot_all_reduce",
                                                       "multimem_all_reduce",
                                                       "allreduce_fusion_kernel",
                                                       "nvshmem"};
  return ContainsAny(name, kNames);
}

bool IsCommRange(std::string_view name) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"nccl:", "gloo:", "mpi:", "ucc:", "xccl:"};
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return true;
  }
  constexpr std::array<std::string_view, 9> kNcclCalls = {
      "ncclSend",      "ncclRecv",   "ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
      "ncclBroadcast", "ncclReduce", "ncclAllToAll",  "ncclBcast"};
  return std::find(kNcclCalls.begin(), kNcclCalls.end(), name) != kNcclCalls.end();
}

trace::Kind CommKind(std::string_view name) {
  const std::string lower = Lower(name);
  constexpr std::array<std::string_view, 5> kCollectives = {"reduce", "gather", "scatter",
                                                            "broadcast", "all_to_all"};
  if (ContainsAny(lower, kCollectives)) return trace::Kind::kCollective;
  const bool pair = Contains(lower, "send") || Contains(lower, "recv");
  return pair ? trace::Kind::kPointToPoint : trace::Kind::kCollective;
}

std::optional<int> ElementBytes(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, int>, 34> kTypes = {{
      {"float", 4},         {"Float", 4},
      {"float32", 4},       {"double", 8},
      {"Double", 8},        {"float64", 8},
      {"c10::Half", 2},     {"Half", 2},
      {"float16", 2},       {"c10::BFloat16", 2},
      {"BFloat16", 2},      {"bfloat16", 2},
      {"int", 4},           {"Int", 4},
      {"int32", 4},         {"long", 8},
      {"long int", 8},      {"Long", 8},
      {"int64", 8},         {"short", 2},
      {"Short", 2},         {"int16", 2},
      {"char", 1},          {"signed char", 1},
      {"Char", 1},          {"int8", 1},
      {"unsigned char", 1}, {"Byte", 1},
      {"uint8", 1},         {"bool", 1},
      {"Bool", 1},          {"Float8_e4m3fn", 1},
      {"Float8_e5m2", 1},   {"c10::Float8_e4m3fn", 1},
  }};
  for (const auto& [name, bytes] : kTypes) {
    if (name == type) return bytes;
  }
  return std::nullopt;
}

}  // namespace teller::interop
