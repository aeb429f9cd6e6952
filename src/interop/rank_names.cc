#include "src/interop/rank_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/core/error.h"

namespace teller::interop {

void RankNames::Add(const ImportedProcess& process, RankSource source, const std::string& file) {
  if (source != RankSource::kNone) {
    for (const Entry& entry : entries_) {
      if (entry.source == RankSource::kNone || entry.process.info.rank != process.info.rank)
        continue;
      throw DataError(
          fmt::format("{} and {} are both rank {}: give one file of each rank of one run",
                      entry.file, file, static_cast<int>(process.info.rank)));
    }
  }
  entries_.push_back({process, source, file});
}

void RankNames::Settle(TraceSink& sink, ImportLog& log) {
  const auto count = [&](RankSource source) {
    return std::count_if(entries_.begin(), entries_.end(),
                         [&](const Entry& e) { return e.source == source; });
  };
  const auto stated = count(RankSource::kStated);
  const auto named = count(RankSource::kFileName);
  const auto unknown = count(RankSource::kNone);
  if (stated > 0) log.Note(fmt::format("ranks: {} as the files state", stated));
  if (named > 0) log.Note(fmt::format("ranks: {} from file names", named));
  if (unknown == 0) return;
  if (stated + named > 0 || unknown == 1) {
    log.Note(fmt::format("ranks: none for {} process{}, nothing states one", unknown,
                         unknown == 1 ? "" : "es"));
    return;
  }
  int32_t rank = 0;
  for (Entry& entry : entries_) {
    entry.process.info.rank = RankId{rank++};
    sink.UpdateProcess(entry.process.index, entry.process.info);
  }
  log.Note(fmt::format("ranks: {} by order, nothing states them", unknown));
}

}  // namespace teller::interop
