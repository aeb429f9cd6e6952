// A target for tests: many processes and threads emit ranges while random ones are killed. Each
// record is counted in a shared page before and after the call that writes it, so that a test can
// bound what must stand in the file.
//   stress_program COUNTS_FILE SECONDS PROCESSES THREADS SEED
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace {

struct Counts {
  std::atomic<uint64_t> before, after, killed;
};

Counts* MapCounts(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Counts)) != 0) std::exit(2);
  void* memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::exit(2);
  return static_cast<Counts*>(memory);
}

void Emit(Counts& counts, int pairs) {
  for (int i = 0; i < pairs; ++i) {
    nvtxRangePushA("stress");
    counts.before.fetch_add(1);
    nvtxRangePop();
    counts.after.fetch_add(1);
  }
}

/// Short threads, one after the other, until the process is killed or told to end.
[[noreturn]] void RunChild(Counts& counts, int threads, unsigned seed,
                           std::chrono::steady_clock::time_point end) {
  std::mt19937 random(seed);
  while (std::chrono::steady_clock::now() < end) {
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t)
      running.emplace_back(
          [&counts, n = 20 + random() % 180] { Emit(counts, static_cast<int>(n)); });
    for (std::thread& thread : running) thread.join();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 12));
  }
  _exit(0);  // nothing may depend on destructors
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  Counts& counts = *MapCounts(argv[1]);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(static_cast<int>(std::atof(argv[2]) * 1000));
  const auto processes = static_cast<std::size_t>(std::atoi(argv[3]));
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[5])));
  std::vector<pid_t> children(processes, 0);
  while (std::chrono::steady_clock::now() < end) {
    for (pid_t& child : children) {
      if (child != 0 && waitpid(child, nullptr, WNOHANG) == child) child = 0;
      if (child == 0 && (child = fork()) == 0) RunChild(counts, std::atoi(argv[4]), random(), end);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    const std::size_t victim = random() % children.size();
    kill(children[victim], SIGKILL);
    waitpid(children[victim], nullptr, 0);
    children[victim] = 0;
    counts.killed.fetch_add(1);
  }
  for (const pid_t child : children) {
    if (child > 0) waitpid(child, nullptr, 0);
  }
  return 0;
}
