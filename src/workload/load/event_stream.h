#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace teller::load {

/// Parses server-sent events as they come in, in pieces of any size. Only `data:` fields are kept;
/// several of one event are joined by line ends. An event over 1 MiB is an error.
class EventStreamParser {
 public:
  explicit EventStreamParser(std::function<void(std::string_view data)> on_event)
      : on_event_(std::move(on_event)) {}
  /// Throws DataError.
  void Feed(std::string_view bytes);

 private:
  void TakeLine(std::string_view line);

  std::function<void(std::string_view)> on_event_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace teller::load
