#include "src/collect/drain.h"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>

#include "src/collect/thread_cpu.h"
#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller::collect {

namespace {

constexpr std::chrono::milliseconds kPeriod(20);
constexpr std::chrono::milliseconds kBusyPeriod(2);
constexpr std::size_t kBusyRecords =
    32 * TELLER_SEGMENT_RECORDS;  // an eighth of a pool in one period
constexpr int64_t kPartialPeriodNs = 500'000'000;
constexpr int kFindPoolsEvery = 5;  // periods
constexpr int kRetireEvery = 50;    // periods

}  // namespace

Drain::Drain(std::filesystem::path run_dir, std::filesystem::path spool_dir)
    : run_dir_(std::move(run_dir)), spool_dir_(std::move(spool_dir)), thread_([this] { Run(); }) {}

Drain::~Drain() { Stop(); }

std::vector<trace::ProcessInfo> Drain::Processes() {
  const std::lock_guard lock(mutex_);
  std::vector<trace::ProcessInfo> infos;
  for (const TracedProcess& process : processes_) infos.push_back(process.pool().Info());
  return infos;
}

/// A process that found no room for its pool.
void Drain::TakeRefusal(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::remove(path, ignored)) return;
  const std::string name = path.stem().string();
  problems_.push_back(fmt::format(
      "process {} was not recorded: no room for its rings in {}; make that tmpfs larger (16 MiB a "
      "process at most) or pass --run-dir with another",
      name.substr(0, name.find('-')), run_dir_.string()));
}

void Drain::FindPools() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir_, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".refused") TakeRefusal(path);
    if (path.extension() != ".pool" || known_pools_.contains(path) || !PoolReader::IsReady(path))
      continue;
    known_pools_[path] = false;
    try {
      processes_.emplace_back(path, spool_dir_);
      known_pools_[path] = true;
    } catch (const Error& unusable) {
      problems_.push_back(unusable.what());
    }
  }
}

void Drain::DrainOnce(PoolReader::Depth depth) {
  std::size_t records = 0;
  for (TracedProcess& process : processes_) records += process.Drain(depth);
  records_.fetch_add(records, std::memory_order_relaxed);
}

void Drain::RetireEnded() {
  for (TracedProcess& process : processes_) {
    if (!process.pool().is_attached() || !process.pool().ProcessIsGone()) continue;
    records_.fetch_add(process.Retire(), std::memory_order_relaxed);
  }
}

void Drain::Run() {
  pthread_setname_np(pthread_self(), "teller-drain");
  int64_t partial_due_ns = MonotonicNs() + kPartialPeriodNs;
  std::unique_lock lock(mutex_);
  for (unsigned period = 0; !stopping_; ++period) {
    if (period % kFindPoolsEvery == 0) FindPools();
    const uint64_t before = records();
    const bool partial = MonotonicNs() >= partial_due_ns;
    DrainOnce(partial ? PoolReader::Depth::kEverything : PoolReader::Depth::kFullSegments);
    if (partial) partial_due_ns = MonotonicNs() + kPartialPeriodNs;
    if (period % kRetireEvery == kRetireEvery - 1) RetireEnded();
    const bool busy = records() - before > kBusyRecords;
    cpu_ns_.store(ThreadCpuNs(), std::memory_order_relaxed);
    wake_.wait_for(lock, busy ? kBusyPeriod : kPeriod, [this] { return stopping_; });
  }
  FindPools();
  DrainOnce(PoolReader::Depth::kEverything);
  for (TracedProcess& process : processes_) process.spool().Rest();
  cpu_ns_ = ThreadCpuNs();
}

void Drain::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace teller::collect
