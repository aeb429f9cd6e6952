#include "src/interop/log_lines.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/core/interrupt.h"

namespace teller::interop {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;
constexpr std::size_t kBatchLines = 4096;
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

}  // namespace

LogLines::LogLines(std::string_view file_name, int process, const ImportOptions& options,
                   TraceSink& sink, ImportLog& log)
    : options_(options),
      sink_(&sink),
      log_(&log),
      file_(sink.Intern(file_name)),
      process_(process) {}

void LogLines::Add(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!line_open_) {
      line_open_ = true;
      line_offset_ = offset_;
    }
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::size_t kept = std::min(end, kMaxLineBytes - std::min(kMaxLineBytes, line_.size()));
    line_.append(bytes.substr(0, kept));
    log_->Count("long_line_cut", static_cast<int64_t>(end - kept), trace::Severity::kDataLoss,
                "bytes");
    offset_ += end;
    bytes.remove_prefix(end);
    if (bytes.empty()) return;
    bytes.remove_prefix(1);
    ++offset_;
    EndLine();
  }
}

void LogLines::EndLine() {
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  std::replace(line_.begin(), line_.end(), '\0', ' ');
  log_->CountSource("log_lines");
  batch_.push_back({.process = process_,
                    .file = file_,
                    .offset = line_offset_,
                    .text = options_.keep_text ? line_ : masker_.Mask(line_)});
  line_.clear();
  line_open_ = false;
  if (batch_.size() < kBatchLines) return;
  sink_->AppendLogs(batch_);
  batch_.clear();
  ThrowIfInterrupted();
}

void LogLines::Finish() {
  if (line_open_) {
    log_->Count("last_line_without_end", 1, trace::Severity::kInfo, "lines");
    EndLine();
  }
  if (!batch_.empty()) sink_->AppendLogs(batch_);
  batch_.clear();
}

void ImportLogFile(ByteStream& in, std::string_view file_name, const ImportOptions& options,
                   TraceSink& sink, ImportLog& log) {
  LogLines lines(file_name, -1, options, sink, log);
  std::string block(kBlockBytes, '\0');
  while (const std::size_t count = in.Read(block.data(), block.size())) {
    lines.Add(std::string_view(block).substr(0, count));
  }
  lines.Finish();
}

}  // namespace teller::interop
