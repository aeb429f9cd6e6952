#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace teller::serve {

/// Seconds after which a test says that something hangs: far more than a busy machine needs.
inline constexpr double kPatienceS = 120;

/// A started program with its output in files; killed when the object goes away.
class Program {
 public:
  /// `name` is of build/.../bin. Output goes to FOLDER/LABEL.{stdout,stderr}.
  Program(const std::string& name, const std::vector<std::string>& arguments,
          const std::filesystem::path& folder, const std::string& label);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal_number) const;
  /// The exit code, 128 + n for a signal; nothing when it still runs after `seconds`.
  std::optional<int> Wait(double seconds);
  std::string Stdout() const;
  std::string Stderr() const;

 private:
  std::filesystem::path prefix_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

/// Two ports of loopback that were free a moment ago.
std::vector<int> FreePorts(int count);

/// The reference service with two ranks on loopback.
class TwoRanks {
 public:
  explicit TwoRanks(const std::vector<std::string>& more = {});
  /// True when /health answers within `seconds` and both ranks still run.
  bool Ready(double seconds = kPatienceS);
  Program& rank(int index) { return *ranks_[static_cast<std::size_t>(index)]; }
  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  const std::filesystem::path& folder() const { return folder_.path(); }
  static std::vector<std::string> Arguments(int rank, int master_port, int port);

 private:
  testing_support::TemporaryFolder folder_;
  int port_ = 0;
  std::vector<std::unique_ptr<Program>> ranks_;
};

}  // namespace teller::serve
