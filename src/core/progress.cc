#include "src/core/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "src/core/clock.h"

namespace teller {
namespace {

constexpr int64_t kQuietNs = 2'000'000'000;
constexpr int64_t kTerminalPeriodNs = 100'000'000;
constexpr int64_t kPlainPeriodNs = 10'000'000'000;

bool StderrIsTerminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

}  // namespace

Progress::Progress(std::string label, int64_t total, std::string unit)
    : label_(std::move(label)),
      total_(total),
      unit_(std::move(unit)),
      begin_ns_(MonotonicNs()),
      terminal_(StderrIsTerminal()) {}

Progress::~Progress() {
  if (printed_ns_ == 0) return;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s\n" : "%s\n", Line().c_str());
}

void Progress::Update(int64_t done, const std::string& note) {
  done_ = done;
  note_ = note;
  const int64_t now_ns = MonotonicNs();
  if (now_ns - begin_ns_ < kQuietNs) return;
  if (now_ns - printed_ns_ < (terminal_ ? kTerminalPeriodNs : kPlainPeriodNs)) return;
  printed_ns_ = now_ns;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", Line().c_str());
  std::fflush(stderr);
}

std::string Progress::Line() const {
  const int64_t elapsed_ns = MonotonicNs() - begin_ns_;
  const double seconds = static_cast<double>(elapsed_ns) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  std::string line =
      total_ > 0 ? fmt::format("{}: {}/{} {} ({:.0f} %)", label_, done_, total_, unit_,
                               100.0 * static_cast<double>(done_) / static_cast<double>(total_))
                 : fmt::format("{}: {} {}", label_, done_, unit_);
  line += fmt::format(", {:.3g} {}/s, {} so far", rate, unit_, FormatDuration(elapsed_ns));
  if (total_ > done_ && rate > 0) {
    line += fmt::format(
        ", {} left",
        FormatDuration(static_cast<int64_t>(static_cast<double>(total_ - done_) / rate * 1e9)));
  }
  if (!note_.empty()) line += ", " + note_;
  return line;
}

}  // namespace teller
