#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace teller::interop {

/// What a file is, judged by its content.
enum class InputFormat {
  kKineto,     ///< Chrome trace of the PyTorch profiler
  kNsight,     ///< SQLite export of Nsight Systems
  kPublished,  ///< trace.json of the published TELLER layout
  kInspector,  ///< JSON lines of NCCL Inspector
  kTeller,     ///< trace.h5 of ours
  kLog,        ///< lines of text
  kNone        ///< none of these
};

/// 'kineto', 'nsight', 'published', 'nccl_inspector', 'teller', 'log'.
std::string_view FormatName(InputFormat format);

struct DetectedFormat {
  InputFormat format = InputFormat::kNone;
  std::string looks_like;  ///< where none: what it is instead and what to do, for people
};

/// How many bytes DetectFormat wants to see where there are so many.
inline constexpr std::size_t kDetectionBytes = std::size_t{4} << 20;

/// Judges the first bytes of a file (of what it expands to, where it is compressed).
DetectedFormat DetectFormat(std::string_view head);

}  // namespace teller::interop
