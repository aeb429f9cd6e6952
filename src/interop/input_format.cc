#include "src/interop/input_format.h"

#include <algorithm>
#include <array>
#include <utility>

namespace teller::interop {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  std::string_view meaning;
};

constexpr std::array<Signature, 12> kForeign = {{
    {"NVIDIA Tegra Profiler Report"sv,
     "a report of Nsight Systems; export it first: nsys export --type sqlite --output REPORT.sqlite REPORT.nsys-rep"sv},
    {"\x7f\x45LF"sv, "an ELF program or library"sv},
    {"\x89PNG"sv, "a PNG picture"sv},
    {"\xff\xd8\xff"sv, "a JPEG picture"sv},
    {"%PDF"sv, "a PDF document"sv},
    {"PK\x03\x04"sv, "a zip archive (or a .pt checkpoint); unpack it first"sv},
    {"Rar!"sv, "a rar archive; unpack it first"sv},
    {"\x37z\xbc\xaf\x27\x1c"sv, "a 7z archive; unpack it first"sv},
    {"BZh"sv, "a bzip2 file; unpack it first"sv},
    {"\x80\x04\x95"sv, "a Python pickle"sv},
    {"PAR1"sv, "a Parquet file; Nsight exports read here are SQLite: nsys export --type sqlite"sv},
    {"\x93NUMPY"sv, "a NumPy array"sv},
}};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view SkipSpace(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"sv)) text.remove_prefix(3);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

/// Bytes of the first 64 KiB that no text has.
bool LooksBinary(std::string_view head) {
  const std::string_view sample = head.substr(0, std::size_t{64} << 10);
  const auto odd = std::count_if(sample.begin(), sample.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\b' &&
           c != '\x1b';
  });
  return Contains(sample, "\0"sv) || static_cast<std::size_t>(odd) * 20 > sample.size();
}

DetectedFormat DetectJson(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  constexpr std::array<std::string_view, 4> kInspectorKeys = {"\"coll_perf\"", "\"p2p_perf\"",
                                                              "\"dump_stats\"", "\"proxy_trace\""};
  for (const std::string_view key : kInspectorKeys) {
    if (Contains(line, key)) return {InputFormat::kInspector, {}};
  }
  if (Contains(text, "\"traceEvents\"")) return {InputFormat::kKineto, {}};
  if (Contains(text, "\"torch_frontend_ops\"") || Contains(text, "\"step_name\""))
    return {InputFormat::kPublished, {}};
  if (text.front() == '[' && Contains(text, "\"ph\"")) return {InputFormat::kKineto, {}};
  // An array cut before its first event, or an object whose events come after megabytes of
  // metadata.
  if (Contains(text, "\"schemaVersion\"") && Contains(text, "\"deviceProperties\""))
    return {InputFormat::kKineto, {}};
  const std::string_view next = SkipSpace(text.substr(std::min(line.size(), text.size())));
  if (line.ends_with('}') && next.starts_with('{'))
    return {InputFormat::kLog, {}};  // a log of JSON lines
  return {InputFormat::kNone,
          "JSON without traceEvents, steps or coll_perf: no trace of a kind that is read here"};
}

}  // namespace

std::string_view FormatName(InputFormat format) {
  constexpr std::array<std::string_view, 7> kNames = {
      "kineto", "nsight", "published", "nccl_inspector", "teller", "log", "none"};
  return kNames[static_cast<std::size_t>(format)];
}

DetectedFormat DetectFormat(std::string_view head) {
  if (head.empty()) return {InputFormat::kNone, "empty"};
  if (head.starts_with("SQLite format 3\0"sv)) return {InputFormat::kNsight, {}};
  if (head.starts_with("\x89HDF\r\n\x1a\n"sv)) return {InputFormat::kTeller, {}};
  for (const Signature& foreign : kForeign) {
    if (head.starts_with(foreign.bytes)) return {InputFormat::kNone, std::string(foreign.meaning)};
  }
  if (LooksBinary(head)) return {InputFormat::kNone, "binary data of no kind that is read here"};
  const std::string_view text = SkipSpace(head);
  if (text.empty()) return {InputFormat::kNone, "nothing but white space"};
  if (text.front() == '{' ||
      (text.front() == '[' && (text.size() == 1 || Contains("{ \t\r\n]", text.substr(1, 1))))) {
    return DetectJson(text);
  }
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<html"))
    return {InputFormat::kNone, "an HTML page"};
  return {InputFormat::kLog, {}};
}

}  // namespace teller::interop
