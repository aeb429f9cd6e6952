#include "src/core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "src/core/clock.h"
#include "src/core/error.h"

namespace teller {
namespace {

std::atomic<int> first_signal{0};
std::atomic<int64_t> first_ns{INT64_MAX};
/// timeout(1) signals its child and then its group: the child hears it twice at once.
constexpr int64_t kSameSignalNs = 500'000'000;

void OnSignal(int signal_number) {
  const int64_t now_ns = MonotonicNs();
  int expected = 0;
  if (first_signal.compare_exchange_strong(expected, signal_number)) {
    first_ns = now_ns;
  } else if (now_ns - first_ns > kSameSignalNs) {
    _exit(128 + signal_number);
  }
}

}  // namespace

void InstallInterruptHandlers() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal_number, nullptr, &before);
    // nohup, and a shell that starts us behind its back, have a signal ignored: so it stays.
    if (before.sa_handler != SIG_IGN) sigaction(signal_number, &action, nullptr);
  }
  signal(SIGPIPE, SIG_IGN);
}

bool Interrupted() { return first_signal.load() != 0; }

int InterruptSignal() { return first_signal.load(); }

void ThrowIfInterrupted() {
  if (Interrupted()) {
    throw Error("interrupted by signal " + std::to_string(InterruptSignal()) +
                "; finished work is kept, run the same command again to continue");
  }
}

}  // namespace teller
