#pragma once

#include <string>
#include <vector>

#include "src/interop/import_log.h"
#include "src/interop/trace_sink.h"

namespace teller::interop {

/// Where a rank was learned from.
enum class RankSource { kStated, kFileName, kNone };

/// Gathers the ranks of an import's processes and settles them at its end.
class RankNames {
 public:
  /// A process that may have a rank of its own. Throws DataError where another has the same one.
  void Add(const ImportedProcess& process, RankSource source, const std::string& file);

  /// Where no process has a rank and there are several, the order of the files is taken; where only
  /// some have one, the others stay without. A note says where the ranks are from.
  void Settle(TraceSink& sink, ImportLog& log);

 private:
  struct Entry {
    ImportedProcess process;
    RankSource source;
    std::string file;
  };
  std::vector<Entry> entries_;
};

}  // namespace teller::interop
