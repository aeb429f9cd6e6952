#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace teller::collect {

/// Bytes written to a blocking file; fewer where it fails (errno), for example with the disk full.
inline std::size_t WriteAll(int file, const char* data, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = write(file, data + done, size - done);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      break;
    }
  }
  return done;
}

}  // namespace teller::collect
