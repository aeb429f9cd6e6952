#include "src/cluster/restore.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "src/cluster/boot.h"
#include "src/cluster/cgroup_folder.h"
#include "src/cluster/journal.h"
#include "src/cluster/process_table.h"
#include "src/core/error.h"

namespace teller::cluster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Entry {
  std::string change;
  std::string what;
  uint64_t start_ticks = 0;
};

/// A journal as found on disk. Lines that are not whole are dropped: their change was never made.
struct OldJournal {
  fs::path path;
  std::string run_id;
  pid_t owner = 0;
  uint64_t owner_start = 0;
  std::string boot_id;
  std::vector<Entry> entries;
};

std::optional<json> ParseLine(const std::string& line) {
  json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  return parsed;
}

template <typename T>
T Value(const json& object, const char* key, T fallback) {
  const auto found = object.find(key);
  if (found == object.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->template get<T>() : fallback;
  } else {
    return found->is_number_integer() ? found->template get<T>() : fallback;
  }
}

std::optional<OldJournal> ReadJournal(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto owner = ParseLine(line);
  if (!owner) return std::nullopt;
  OldJournal journal{.path = path,
                     .run_id = Value<std::string>(*owner, "run_id", ""),
                     .owner = Value<pid_t>(*owner, "owner", 0),
                     .owner_start = Value<uint64_t>(*owner, "start_ticks", 0),
                     .boot_id = Value<std::string>(*owner, "boot_id", "")};
  if (journal.run_id.empty() || journal.owner <= 0) return std::nullopt;
  while (std::getline(file, line)) {
    const auto entry = ParseLine(line);
    if (!entry) continue;
    journal.entries.push_back({.change = Value<std::string>(*entry, "change", ""),
                               .what = Value<std::string>(*entry, "what", ""),
                               .start_ticks = Value<uint64_t>(*entry, "start_ticks", 0)});
  }
  return journal;
}

/// An owner whose parent was killed a moment ago is about to end: that is waited for, up to two
/// seconds.
bool OwnerLives(const OldJournal& journal) {
  if (journal.boot_id != BootId()) return false;
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (!IsAlive(journal.owner, journal.owner_start)) return false;
    if (!IsEnding(journal.owner)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// Ends processes for good: kills, then waits up to two seconds until they are gone.
bool EndProcesses(const std::vector<pid_t>& pids) {
  std::vector<std::pair<pid_t, uint64_t>> ending;
  for (const pid_t pid : pids) {
    if (const auto stat = ReadProcessStat(pid)) ending.emplace_back(pid, stat->start_ticks);
    kill(pid, SIGKILL);
  }
  const auto gone = [](const auto& process) { return !IsAlive(process.first, process.second); };
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (std::all_of(ending.begin(), ending.end(), gone)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Decides what one journal entry still means on this machine and undoes it.
class Undo {
 public:
  Undo(const OldJournal& journal, bool dry_run, const CollectionRecovery& recover)
      : journal_(journal),
        dry_run_(dry_run),
        recover_(recover),
        same_boot_(journal.boot_id == BootId()) {}

  /// Nothing where the change is not there any more.
  std::optional<Leftover> Entry(const struct Entry& entry) const {
    if (entry.change == ChangeName(Change::kFolder)) return Folder(entry);
    if (entry.change == ChangeName(Change::kCollection)) return Collection(entry);
    if (!same_boot_) return std::nullopt;  // pids, inodes and cgroups of another boot are gone
    if (entry.change == ChangeName(Change::kProcess)) return Process(entry);
    if (entry.change == ChangeName(Change::kStopped)) return Stopped(entry);
    if (entry.change == ChangeName(Change::kNetwork)) return Network(entry);
    if (entry.change == ChangeName(Change::kCgroup)) return Cgroup(entry);
    Leftover unknown = Found(entry, entry.what);
    unknown.failed = true;
    unknown.outcome = "unknown kind of change; a newer teller wrote it";
    return unknown;
  }

 private:
  Leftover Found(const struct Entry& entry, std::string what) const {
    return {.run_id = journal_.run_id,
            .change = entry.change,
            .what = std::move(what),
            .outcome = dry_run_ ? "would be undone" : "undone"};
  }

  static Leftover Failed(Leftover leftover, std::string why) {
    leftover.failed = true;
    leftover.outcome = std::move(why);
    return leftover;
  }

  std::optional<Leftover> Folder(const struct Entry& entry) const {
    const fs::path path = fs::path(entry.what).lexically_normal();
    const bool ours =
        path.parent_path() == "/dev/shm" && path.filename().string().starts_with("teller-");
    if (!ours || !fs::is_directory(fs::symlink_status(path))) return std::nullopt;
    Leftover leftover = Found(entry, entry.what);
    if (dry_run_) return leftover;
    std::error_code error;
    fs::remove_all(path, error);
    return error ? Failed(std::move(leftover), error.message()) : leftover;
  }

  std::optional<Leftover> Collection(const struct Entry& entry) const {
    if (!fs::is_directory(fs::symlink_status(entry.what))) return std::nullopt;
    Leftover leftover = Found(entry, entry.what);
    try {
      leftover.outcome = recover_(entry.what, dry_run_);
      return leftover;
    } catch (const Error& error) {
      return Failed(std::move(leftover), error.what());
    }
  }

  std::optional<Leftover> Process(const struct Entry& entry) const {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.what.c_str()));
    if (!IsAlive(pid, entry.start_ticks)) return std::nullopt;
    std::vector<pid_t> pids = Descendants(pid);
    pids.push_back(pid);
    Leftover leftover = Found(entry, fmt::format("{} ({})", pid, ReadProcessStat(pid)->comm));
    if (dry_run_ || EndProcesses(pids)) return leftover;
    return Failed(std::move(leftover), "did not end within 2 s after SIGKILL");
  }

  std::optional<Leftover> Stopped(const struct Entry& entry) const {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.what.c_str()));
    const auto stat = ReadProcessStat(pid);
    if (!stat || stat->start_ticks != entry.start_ticks || stat->state != 'T') return std::nullopt;
    Leftover leftover = Found(entry, fmt::format("{} ({})", pid, stat->comm));
    if (dry_run_ || kill(pid, SIGCONT) == 0) return leftover;
    return Failed(std::move(leftover), std::strerror(errno));
  }

  /// Inodes of namespaces are reused, so a process counts as ours only where it also sees the run's
  /// folder in a mount namespace that is not this one.
  std::optional<Leftover> Network(const struct Entry& entry) const {
    const uint64_t inode = std::strtoull(entry.what.c_str(), nullptr, 10);
    std::vector<pid_t> pids;
    for (const pid_t pid : AllProcesses()) {
      if (NamespaceInode(pid, "net") == inode && SeesRunFolder(pid)) pids.push_back(pid);
    }
    if (pids.empty()) return std::nullopt;
    Leftover leftover =
        Found(entry, fmt::format("namespace net:[{}], {} processes", inode, pids.size()));
    if (dry_run_ || EndProcesses(pids)) return leftover;
    return Failed(std::move(leftover), "its processes did not end within 2 s after SIGKILL");
  }

  bool SeesRunFolder(pid_t pid) const {
    const uint64_t mounts = NamespaceInode(pid, "mnt");
    std::error_code error;
    return mounts != 0 && mounts != NamespaceInode(getpid(), "mnt") &&
           fs::exists(fmt::format("/proc/{}/root/dev/shm/teller-{}", pid, journal_.run_id), error);
  }

  std::optional<Leftover> Cgroup(const struct Entry& entry) const {
    if (!IsOwnCgroup(entry.what) || !fs::is_directory(entry.what)) return std::nullopt;
    Leftover leftover = Found(entry, entry.what);
    if (dry_run_) return leftover;
    const std::string problem = RemoveCgroup(entry.what);
    return problem.empty() ? leftover : Failed(std::move(leftover), problem);
  }

  const OldJournal& journal_;
  bool dry_run_;
  const CollectionRecovery& recover_;
  bool same_boot_;
};

bool IsCollection(const Entry& entry) { return entry.change == ChangeName(Change::kCollection); }

void UndoJournal(const OldJournal& journal, bool dry_run, const CollectionRecovery& recover,
                 std::vector<Leftover>& leftovers) {
  const Undo undo(journal, dry_run, recover);
  bool failed = false;
  for (auto entry = journal.entries.rbegin(); entry != journal.entries.rend(); ++entry) {
    auto leftover = undo.Entry(*entry);
    if (!leftover) continue;
    failed |= leftover->failed;
    leftovers.push_back(std::move(*leftover));
    if (failed && IsCollection(*entry)) break;  // what stands before it holds its records
  }
  std::error_code ignored;
  if (!dry_run && !failed) fs::remove(journal.path, ignored);
}

/// A runner killed before its journal had a name left '.RUN_ID.PID.partial': it had changed nothing
/// yet.
void RemoveUnnamedJournals(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> unnamed;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() == ".partial") unnamed.push_back(file.path());
  }
  for (const fs::path& path : unnamed) {
    const std::string owner = path.stem().extension().string();  // '.PID'
    const pid_t pid = owner.size() > 1 ? static_cast<pid_t>(std::atoi(owner.c_str() + 1)) : 0;
    if (pid <= 0 || !ReadProcessStat(pid)) fs::remove(path, error);
  }
}

}  // namespace

std::vector<Leftover> RestoreLeftovers(bool dry_run, const CollectionRecovery& recover) {
  std::vector<Leftover> leftovers;
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& file : fs::directory_iterator(StateFolder() / "journal", error)) {
    if (file.path().extension() == ".jsonl") paths.push_back(file.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const auto journal = ReadJournal(path);
    if (!journal || OwnerLives(*journal)) continue;
    if (!recover && std::ranges::any_of(journal->entries, IsCollection)) continue;
    UndoJournal(*journal, dry_run, recover, leftovers);
  }
  if (!dry_run) RemoveUnnamedJournals(StateFolder() / "journal");
  return leftovers;
}

}  // namespace teller::cluster
