// Preloaded into an engine that links torch: switches the torch profiler on all its threads as a
// shared word says ($TELLER_PROFILER_SWITCH), so that its cost can be measured in short stretches
// of one run. What it records is thrown away.
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace {

struct Word {
  std::atomic<uint32_t> changes;  ///< odd: on
  std::atomic<uint32_t> answered;
};

void Switch(bool on) {
  using torch::profiler::impl::ActivityType;
  using torch::profiler::impl::ExperimentalConfig;
  using torch::profiler::impl::ProfilerConfig;
  using torch::profiler::impl::ProfilerState;
  if (!on) {
    torch::autograd::profiler::disableProfiler();
    return;
  }
  ExperimentalConfig all_threads;
  all_threads.profile_all_threads = true;
  const ProfilerConfig config(ProfilerState::KINETO, false, false, false, false, false,
                              all_threads);
  const std::set<ActivityType> activities{ActivityType::CPU};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(
      config, activities, {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
}

void Follow(Word* word) {
  pthread_setname_np(pthread_self(), "profiler-switch");
  for (uint32_t done = 0;;) {
    const uint32_t changes = word->changes.load();
    if (changes == done) {  // sleeps until the word changes or a moment is over
      const timespec moment{0, 20'000'000};
      syscall(SYS_futex, &word->changes, FUTEX_WAIT, changes, &moment, nullptr, 0);
      continue;
    }
    done = changes;
    Switch(done % 2 != 0);
    word->answered.fetch_add(1);
  }
}

__attribute__((constructor)) void OnLoad() {
  const char* path = getenv("TELLER_PROFILER_SWITCH");
  const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* memory = mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) std::thread(Follow, static_cast<Word*>(memory)).detach();
}

}  // namespace
