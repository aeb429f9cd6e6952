#include "src/workload/load/event_stream.h"

#include "src/core/error.h"

namespace teller::load {
namespace {

constexpr std::size_t kMaxEventBytes = std::size_t{1} << 20;

}  // namespace

void EventStreamParser::Feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n') {
      line_ += c;
    } else {
      if (line_.ends_with('\r')) line_.pop_back();
      TakeLine(line_);
      line_.clear();
    }
  }
  if (line_.size() + data_.size() > kMaxEventBytes) {
    throw DataError("a server-sent event is larger than 1 MiB; is this a completions stream?");
  }
}

void EventStreamParser::TakeLine(std::string_view line) {
  if (line.empty()) {
    if (has_data_) on_event_(data_);
    data_.clear();
    has_data_ = false;
  } else if (line.starts_with("data:")) {
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
}

}  // namespace teller::load
