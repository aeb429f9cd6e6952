#include "src/core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "src/core/error.h"

namespace teller {
namespace {

std::atomic<int> first_signal{0};

void OnSignal(int signal_number) {
  int expected = 0;
  if (!first_signal.compare_exchange_strong(expected, signal_number)) _exit(128 + signal_number);
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
