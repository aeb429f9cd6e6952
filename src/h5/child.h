#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace teller::h5 {

/// What a child that reads a file we do not trust may use.
struct ChildLimits {
  uint64_t memory_bytes = uint64_t{4} << 30;  ///< address space on top of what the parent has
  int cpu_seconds = 60;
  int wall_seconds = 120;

  /// Limits that leave room for an honest file of this size.
  static ChildLimits ForFile(const std::filesystem::path& path);
};

/// Runs `body` in a forked child under limits and answers what it returned: libhdf5 itself crashes
/// and hangs on damaged files. Call it while this process has one thread. A teller::Error of the
/// body is thrown here again with its exit code; a child that dies, hangs or runs out of memory is
/// a DataError of one line that names `what`.
std::string RunInChild(const std::string& what, const ChildLimits& limits,
                       const std::function<std::string()>& body);

}  // namespace teller::h5
