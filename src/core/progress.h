#pragma once

#include <cstdint>
#include <string>

namespace teller {

/// Progress on stderr with rate and time left, for anything that may last longer than two seconds.
/// On a terminal one line is redrawn ten times a second at most; elsewhere a plain line is written
/// every ten seconds. Nothing is printed in the first two seconds. Not thread-safe: one owner
/// updates it.
class Progress {
 public:
  /// `total` in `unit`s; 0 where it is not known.
  Progress(std::string label, int64_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(int64_t done) { Update(done, {}); }
  /// `note` stands at the end of the line, for example the loss or the stage.
  void Update(int64_t done, const std::string& note);
  void Add(int64_t more) { Update(done_ + more); }

 private:
  std::string Line() const;

  std::string label_;
  int64_t total_;
  std::string unit_;
  std::string note_;
  int64_t done_ = 0;
  int64_t begin_ns_;
  int64_t printed_ns_ = 0;
  bool terminal_;
};

}  // namespace teller
