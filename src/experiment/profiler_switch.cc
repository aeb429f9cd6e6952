#include "src/experiment/profiler_switch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/workload/launch/http_post.h"
#include "src/workload/launch/program.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kPatienceNs = 60'000'000'000;
constexpr timespec kPause{0, 2'000'000};

/// The shared file of tests/benchmarks/profiler_switch.cc.
struct Word {
  std::atomic<uint32_t> changes;   ///< ours; odd: on
  std::atomic<uint32_t> answered;  ///< by all processes together
};

fs::path LibraryPath() {
  const fs::path library = launch::FindProgram("teller").parent_path().parent_path() / "lib" /
                           "libteller_profiler_switch.so";
  if (!fs::exists(library)) {
    throw UnavailableError(
        fmt::format("{} is absent; configure with -DTELLER_BUILD_BENCHMARKS=ON", library.string()));
  }
  return library;
}

class PreloadedSwitch final : public ProfilerSwitch {
 public:
  PreloadedSwitch(const fs::path& run_dir, int processes)
      : library_(LibraryPath()), file_(run_dir / "profiler"), processes_(processes) {
    const int file = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(Word)) != 0)
      throw DeviceError(fmt::format("{}: cannot make it: {}", file_.string(), strerror(errno)));
    void* memory = mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
      throw DeviceError(fmt::format("{}: cannot map it: {}", file_.string(), strerror(errno)));
    word_ = static_cast<Word*>(memory);
  }
  ~PreloadedSwitch() override { munmap(word_, sizeof(Word)); }

  void Set(bool on) override {
    if ((word_->changes % 2 != 0) == on) return;
    const uint32_t wanted = (word_->changes += 1) * static_cast<uint32_t>(processes_);
    const int64_t end_ns = MonotonicNs() + kPatienceNs;
    while (word_->answered < wanted) {
      if (MonotonicNs() > end_ns)
        throw DeviceError("the torch profiler did not switch in a minute");
      ThrowIfInterrupted();
      nanosleep(&kPause, nullptr);
    }
  }

  void AddTo(std::map<std::string, std::string>& environment) const override {
    std::string& preloaded = environment["LD_PRELOAD"];
    preloaded = library_.string() + (preloaded.empty() ? "" : ":" + preloaded);
    environment["TELLER_PROFILER_SWITCH"] = file_.string();
    environment["KINETO_LOG_LEVEL"] = "99";
  }

 private:
  fs::path library_, file_;
  int processes_;
  Word* word_;
};

class HttpSwitch final : public ProfilerSwitch {
 public:
  HttpSwitch(cluster::Cluster& cluster, const launch::Endpoint& endpoint, const fs::path& folder)
      : cluster_(cluster), endpoint_(endpoint), folder_(folder) {}

  void Set(bool on) override {
    launch::PostFrom(cluster_.node(endpoint_.node),
                     fmt::format("{}/{}_profile", endpoint_.url, on ? "start" : "stop"));
    if (!on) RemoveTraces();
  }

  void AddTo(std::map<std::string, std::string>&) const override {}

 private:
  void RemoveTraces() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_, ignored))
      fs::remove_all(entry.path(), ignored);
  }

  cluster::Cluster& cluster_;
  launch::Endpoint endpoint_;
  fs::path folder_;
};

}  // namespace

std::unique_ptr<ProfilerSwitch> ProfilerSwitch::Preloaded(const fs::path& run_dir, int processes) {
  return std::make_unique<PreloadedSwitch>(run_dir, processes);
}

std::unique_ptr<ProfilerSwitch> ProfilerSwitch::Http(cluster::Cluster& cluster,
                                                     const launch::Endpoint& endpoint,
                                                     const fs::path& folder) {
  return std::make_unique<HttpSwitch>(cluster, endpoint, folder);
}

}  // namespace teller::experiment
