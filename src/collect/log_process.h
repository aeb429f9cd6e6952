#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "src/trace/event.h"

namespace teller::collect {

/// Which process wrote a log line. A line that names one ('(EngineCore pid=123)', 'pid 123',
/// '[123]' with the id of a traced process) is its; else the line of a node's log is that of the
/// node's only rank, else of its only process.
class LogProcess {
 public:
  void Add(int process, const trace::ProcessInfo& info);
  /// Index of the process; -1 where it cannot be known. `node` empty: any.
  int Of(const std::string& node, std::string_view text) const;

 private:
  struct Only {
    int process = -1;
    bool several = false;
    void Add(int another);
  };
  struct Candidates {
    Only rank, any;
    std::map<uint32_t, Only> by_pid;  ///< nodes may have process ids of their own
    void Add(int process, const trace::ProcessInfo& info);
    int Of(std::string_view text) const;
  };

  Candidates all_;
  std::map<std::string, Candidates> nodes_;
};

}  // namespace teller::collect
