#pragma once

#include <cstdint>
#include <utility>

namespace teller::h5 {

/// Owns one HDF5 id (hid_t) and closes it.
class Handle {
 public:
  using Closer = int (*)(int64_t);

  Handle() = default;
  Handle(int64_t id, Closer closer) : id_(id), closer_(closer) {}
  ~Handle() { Reset(); }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), closer_(std::exchange(other.closer_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      Reset();
      id_ = std::exchange(other.id_, -1);
      closer_ = std::exchange(other.closer_, nullptr);
    }
    return *this;
  }

  int64_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// Closes now; false where HDF5 could not (a write that failed late).
  bool Reset() {
    const bool closed = id_ < 0 || closer_(id_) >= 0;
    id_ = -1;
    return closed;
  }

 private:
  int64_t id_ = -1;
  Closer closer_ = nullptr;
};

}  // namespace teller::h5
