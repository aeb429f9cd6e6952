#include "src/collect/traced_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller::collect {

namespace {

std::filesystem::path WithEnding(const std::filesystem::path& base, const char* ending) {
  return base.string() + ending;
}

std::vector<TellerClockTriple> ReadTriples(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  const std::string bytes = ReadFile(path);
  std::vector<TellerClockTriple> triples(bytes.size() / sizeof(TellerClockTriple));
  if (!triples.empty())
    memcpy(triples.data(), bytes.data(), triples.size() * sizeof(TellerClockTriple));
  return triples;
}

std::vector<std::filesystem::path> FilesEndingIn(const std::filesystem::path& folder,
                                                 const char* ending) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ending) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TracedProcess::TracedProcess(std::unique_ptr<PoolReader> pool,
                             const std::filesystem::path& spool_folder)
    : base_(spool_folder / pool->path().stem()),
      pool_(std::move(pool)),
      spool_(std::make_unique<Spool>(WithEnding(base_, ".records"))) {}

TracedProcess::TracedProcess(const std::filesystem::path& pool,
                             const std::filesystem::path& spool_folder)
    : TracedProcess(std::make_unique<PoolReader>(pool), spool_folder) {}

void TracedProcess::GoOn() {
  const uint64_t known = std::min<uint64_t>(spool_->size(), TELLER_SEGMENT_RECORDS);
  pool_->GoOn(ReadTriples(WithEnding(base_, ".clock")),
              spool_->Read(spool_->size() - known, known));
  kept_triples_ = pool_->clock().size();
}

std::vector<TracedProcess> TracedProcess::Recover(const std::filesystem::path& run_folder,
                                                  const std::filesystem::path& spool_folder,
                                                  std::vector<std::string>& problems) {
  std::vector<TracedProcess> processes;
  std::set<std::filesystem::path> found;
  const auto take = [&](const std::filesystem::path& path, auto open) {
    if (found.contains(path.stem())) return;
    try {
      TracedProcess process(open(path), spool_folder);
      process.GoOn();
      processes.push_back(std::move(process));
      found.insert(path.stem());
    } catch (const Error& unusable) {
      problems.push_back(unusable.what());
    }
  };
  for (const auto& path : FilesEndingIn(run_folder, ".pool")) {
    if (!PoolReader::IsReady(path)) continue;
    take(path, [](const auto& pool) { return std::make_unique<PoolReader>(pool); });
  }
  for (const auto& path : FilesEndingIn(spool_folder, ".process")) take(path, PoolReader::OpenKept);
  for (const auto& path : FilesEndingIn(spool_folder, ".records")) {
    if (found.contains(path.stem())) continue;
    problems.push_back(fmt::format("{}: {} records whose names went with the machine's memory",
                                   path.string(), Spool(path).size()));
  }
  return processes;
}

std::size_t TracedProcess::Drain(PoolReader::Depth depth) {
  const uint64_t lost = spool_->lost();
  const std::size_t records = pool_->Drain(depth, *spool_);
  pool_->CountSpoolFull(spool_->lost() - lost);
  KeepClock();
  return records;
}

void TracedProcess::KeepClock() {
  const std::vector<TellerClockTriple>& clock = pool_->clock();
  if (kept_triples_ == clock.size() || spool_->size() == 0) return;
  std::ofstream file(WithEnding(base_, ".clock"), std::ios::binary | std::ios::app);
  file.write(reinterpret_cast<const char*>(clock.data() + kept_triples_),
             static_cast<std::streamsize>((clock.size() - kept_triples_) * sizeof clock[0]));
  kept_triples_ = clock.size();
}

bool TracedProcess::IsSilent() const {
  return pool_->sources_attached() == 0 && spool_->size() == 0 && pool_->Info().rank == kNoRank;
}

std::size_t TracedProcess::Retire() {
  const std::size_t records = Drain(PoolReader::Depth::kEverything);
  try {
    if (!IsSilent()) pool_->KeepIn(WithEnding(base_, ".process"));
    pool_->Retire();
  } catch (const DeviceError&) {
    // The disk is full: the pool stays, for a successor.
  }
  spool_->Rest();
  return records;
}

}  // namespace teller::collect
