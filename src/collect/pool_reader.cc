#include "src/collect/pool_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/secret_mask.h"

namespace teller::collect {

namespace {

std::string Text(const char* text, std::size_t size) { return {text, strnlen(text, size)}; }

uint32_t OwnPidNamespace() {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? static_cast<uint32_t>(status.st_ino) : 0;
}

char* MapPool(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0)
    throw DataError(fmt::format("{}: cannot open the pool: {}", path.string(), strerror(errno)));
  struct stat status;
  const bool whole =
      fstat(file, &status) == 0 && static_cast<uint64_t>(status.st_size) == TELLER_POOL_FILE_BYTES;
  void* memory =
      whole ? mmap(nullptr, TELLER_POOL_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
            : MAP_FAILED;
  close(file);
  if (memory == MAP_FAILED)
    throw DataError(
        fmt::format("{}: not a pool file of version {}", path.string(), TELLER_ABI_VERSION));
  return static_cast<char*>(memory);
}

/// Where the last records end with the first ones of the segment that are not marked as consumed,
/// these were given to the sink. Stamps make every record different.
void SkipGiven(TellerSegment& segment, std::span<const TellerRecord> last_records) {
  const uint32_t count = std::min<uint32_t>(
      __atomic_load_n(&segment.header.count, __ATOMIC_ACQUIRE), TELLER_SEGMENT_RECORDS);
  const uint32_t consumed = segment.header.consumed;
  for (std::size_t first = 0; first < last_records.size() && consumed < count; ++first) {
    const std::size_t given = last_records.size() - first;
    if (given > count - consumed ||
        memcmp(&last_records[first], segment.records + consumed, given * sizeof(TellerRecord)) != 0)
      continue;
    segment.header.consumed = consumed + static_cast<uint32_t>(given);
    return;
  }
}

}  // namespace

bool PoolReader::IsReady(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  uint64_t magic = 0;
  const bool ready =
      pread(file, &magic, sizeof magic, 0) == sizeof magic && magic == TELLER_POOL_MAGIC;
  close(file);
  return ready;
}

PoolReader::PoolReader(const std::filesystem::path& path) : path_(path), memory_(MapPool(path)) {
  header_ = reinterpret_cast<TellerPoolHeader*>(memory_);
  if (__atomic_load_n(&header_->magic, __ATOMIC_ACQUIRE) == TELLER_POOL_MAGIC &&
      header_->abi_version == TELLER_ABI_VERSION) {
    return;
  }
  munmap(memory_, TELLER_POOL_FILE_BYTES);
  throw DataError(
      fmt::format("{}: not a pool file of version {}", path.string(), TELLER_ABI_VERSION));
}

PoolReader::~PoolReader() {
  if (memory_ != nullptr) munmap(memory_, TELLER_POOL_FILE_BYTES);
}

std::unique_ptr<PoolReader> PoolReader::OpenKept(const std::filesystem::path& path) {
  const std::string kept = ReadFile(path, TELLER_POOL_NAMES_OFFSET + TELLER_NAME_TABLE_BYTES);
  std::unique_ptr<PoolReader> reader(new PoolReader());
  reader->path_ = path;
  reader->kept_header_ = std::make_unique<TellerPoolHeader>();
  reader->header_ = reader->kept_header_.get();
  if (kept.size() >= sizeof(TellerPoolHeader))
    memcpy(reader->header_, kept.data(), sizeof(TellerPoolHeader));
  if (kept.size() < TELLER_POOL_NAMES_OFFSET || reader->header_->magic != TELLER_POOL_MAGIC ||
      reader->header_->abi_version != TELLER_ABI_VERSION) {
    throw DataError(
        fmt::format("{}: not the rest of a pool of version {}", path.string(), TELLER_ABI_VERSION));
  }
  reader->TakeNames(kept.data() + TELLER_POOL_NAMES_OFFSET,
                    static_cast<uint32_t>(kept.size() - TELLER_POOL_NAMES_OFFSET));
  return reader;
}

void PoolReader::TakeNames(const char* table, uint32_t bytes) {
  while (name_bytes_read_ + sizeof(uint32_t) <= bytes) {
    uint32_t length;
    memcpy(&length, table + name_bytes_read_, sizeof length);
    const uint64_t next =
        name_bytes_read_ + sizeof length + ((uint64_t{length} + 3) & ~uint64_t{3});
    if (next > bytes) break;
    names_.emplace_back(table + name_bytes_read_ + sizeof length, length);
    name_bytes_read_ = static_cast<uint32_t>(next);
  }
}

void PoolReader::DrainNames() {
  TakeNames(memory_ + TELLER_POOL_NAMES_OFFSET,
            std::min<uint32_t>(__atomic_load_n(&header_->name_bytes, __ATOMIC_ACQUIRE),
                               TELLER_NAME_TABLE_BYTES));
}

void PoolReader::DrainClock() {
  const uint32_t head = __atomic_load_n(&header_->clock_head, __ATOMIC_ACQUIRE);
  if (head - clock_read_ > TELLER_CLOCK_TRIPLES) {
    clock_lost_ += head - clock_read_ - TELLER_CLOCK_TRIPLES;
    clock_read_ = head - TELLER_CLOCK_TRIPLES;
  }
  for (; clock_read_ != head; ++clock_read_)
    clock_.push_back(header_->clock[clock_read_ % TELLER_CLOCK_TRIPLES]);
}

std::size_t PoolReader::DrainSegment(TellerSegment& segment, Depth depth, RecordSink& sink) {
  TellerSegmentHeader& header = segment.header;
  const uint32_t state = __atomic_load_n(&header.state, __ATOMIC_ACQUIRE);
  if (state == TELLER_SEGMENT_FREE ||
      (state == TELLER_SEGMENT_WRITING && depth == Depth::kFullSegments))
    return 0;
  const uint32_t count =
      std::min<uint32_t>(__atomic_load_n(&header.count, __ATOMIC_ACQUIRE), TELLER_SEGMENT_RECORDS);
  const uint32_t consumed = std::min(header.consumed, count);
  if (count > consumed) sink.Take({segment.records + consumed, count - consumed});
  // In this order, so that whoever goes on after a kill at any point takes no record twice (GoOn
  // covers the one between Take and here).
  __atomic_store_n(&header.consumed, count, __ATOMIC_RELEASE);
  if (state == TELLER_SEGMENT_FULL) {
    __atomic_store_n(&header.count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&header.consumed, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&header.state, TELLER_SEGMENT_FREE, __ATOMIC_RELEASE);
  }
  return count - consumed;
}

void PoolReader::GoOn(std::vector<TellerClockTriple> clock,
                      std::span<const TellerRecord> last_records) {
  if (memory_ != nullptr) {
    const uint32_t segments = std::min<uint32_t>(header_->segment_count, TELLER_POOL_SEGMENTS);
    auto* first = reinterpret_cast<TellerSegment*>(memory_ + TELLER_POOL_SEGMENTS_OFFSET);
    for (uint32_t i = 0; i < segments; ++i) SkipGiven(first[i], last_records);
    DrainClock();  // of the last ones; those that stand in both are taken once
  }
  std::erase_if(clock_, [&](const TellerClockTriple& triple) {
    return !clock.empty() && triple.ticks <= clock.back().ticks;
  });
  clock.insert(clock.end(), clock_.begin(), clock_.end());
  clock_ = std::move(clock);
  clock_lost_ = 0;
}

std::size_t PoolReader::Drain(Depth depth, RecordSink& sink) {
  if (memory_ == nullptr) return 0;
  const uint32_t segments = std::min<uint32_t>(
      __atomic_load_n(&header_->segment_count, __ATOMIC_ACQUIRE), TELLER_POOL_SEGMENTS);
  auto* first = reinterpret_cast<TellerSegment*>(memory_ + TELLER_POOL_SEGMENTS_OFFSET);
  std::size_t records = 0;
  for (uint32_t i = 0; i < segments; ++i) records += DrainSegment(first[i], depth, sink);
  DrainNames();  // after the records: every name they use is in the table by now
  DrainClock();
  return records;
}

trace::ProcessInfo PoolReader::Info() const {
  trace::ProcessInfo info;
  info.rank = RankId{__atomic_load_n(&header_->rank, __ATOMIC_ACQUIRE)};
  info.node = Text(header_->node, sizeof header_->node);
  info.host = Text(header_->host, sizeof header_->host);
  info.pid = header_->pid;
  info.parent_pid = header_->ppid;
  info.comm = Text(header_->comm, sizeof header_->comm);
  info.command = MaskSecrets(Text(header_->command, sizeof header_->command));
  return info;
}

std::string PoolReader::Note() const { return Text(header_->note, sizeof header_->note); }

uint64_t PoolReader::dropped(TellerDropReason reason) const {
  return __atomic_load_n(&header_->dropped[reason], __ATOMIC_RELAXED);
}

void PoolReader::CountSpoolFull(uint64_t records) {
  header_->dropped[TELLER_DROP_SPOOL_FULL] += records;
}

uint64_t PoolReader::attach_ns(TellerSource source) const { return header_->attach_ns[source]; }

uint64_t PoolReader::cupti_overhead_ns() const {
  return __atomic_load_n(&header_->cupti_overhead_ns, __ATOMIC_RELAXED);
}

uint32_t PoolReader::sources_attached() const {
  return __atomic_load_n(&header_->sources_attached, __ATOMIC_ACQUIRE);
}

bool PoolReader::ProcessIsGone() const {
  if (header_->pid == 0 || header_->pid_namespace != OwnPidNamespace()) return false;
  return kill(static_cast<pid_t>(header_->pid), 0) != 0 && errno == ESRCH;
}

void PoolReader::KeepIn(const std::filesystem::path& file) const {
  const uint32_t name_bytes = std::min(name_bytes_read_, TELLER_NAME_TABLE_BYTES);
  std::ofstream out(file, std::ios::binary);
  out.write(memory_, TELLER_POOL_NAMES_OFFSET + std::streamsize{name_bytes});
  out.close();
  if (!out) throw DeviceError(fmt::format("{}: cannot write: {}", file.string(), strerror(errno)));
}

void PoolReader::Retire() {
  kept_header_ = std::make_unique<TellerPoolHeader>(*header_);
  header_ = kept_header_.get();
  munmap(memory_, TELLER_POOL_FILE_BYTES);
  memory_ = nullptr;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace teller::collect
