// A target for tests: emits NVTX as its first argument says.
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

void Pairs(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA(i % 2 == 0 ? "outer" : "single");
    if (i % 2 == 0) {
      nvtxRangePushA("inner");
      nvtxRangePop();
    }
    nvtxRangePop();
  }
}

void Threads(int threads, int pairs) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) running.emplace_back(Pairs, pairs);
  for (std::thread& thread : running) thread.join();
}

/// The parent and two children, one of which executes this program anew.
void Fork(const char* self) {
  nvtxRangePushA("before fork");
  if (fork() == 0) {
    Pairs(10);
    _exit(0);
  }
  if (fork() == 0) execl(self, self, "pairs", "20", nullptr);
  while (wait(nullptr) > 0) {
  }
  nvtxRangePop();
}

/// The image replaces itself: same pid, same start time.
void Exec(const char* self) {
  Pairs(6);
  execl(self, self, "pairs", "8", nullptr);
}

/// Says how many pairs are done after each hundred, for ever, so that a test can kill it.
void Forever() {
  for (int done = 0;; done += 100) {
    Pairs(100);
    std::printf("%d\n", done + 100);
    std::fflush(stdout);
    usleep(1000);
  }
}

void Everything() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("test domain");
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxRangePushW(L"wide \u00e4\u20ac");
  nvtxDomainRangePop(domain);  // crosses the default domain's open range
  nvtxRangePop();
  nvtxMarkA("mark");
  const nvtxRangeId_t range = nvtxRangeStartA("start end");
  std::thread([range] { nvtxRangeEnd(range); }).join();
  nvtxRangeEnd(range);  // a second time: unknown
  nvtxRangePop();       // unbalanced
  attributes.messageType = NVTX_MESSAGE_UNKNOWN;
  nvtxRangePushEx(&attributes);  // no message
  nvtxRangePop();
}

/// Ranges that are open when the process exits in order, on this thread and on another.
void Open() {
  nvtxRangeStartA("started, not ended");
  nvtxRangePushA("pushed, not popped");
  std::thread([] {
    nvtxRangePushA("pushed elsewhere");
    nvtxRangePushA("popped");
    nvtxRangePop();
    pause();
  }).detach();
  usleep(100000);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "pairs") {
    Pairs(std::atoi(argv[2]));
  } else if (what == "threads") {
    Threads(std::atoi(argv[2]), std::atoi(argv[3]));
  } else if (what == "fork") {
    Fork(argv[0]);
  } else if (what == "exec") {
    Exec(argv[0]);
  } else if (what == "forever") {
    Forever();
  } else if (what == "open") {
    Open();
  } else if (what == "everything") {
    Everything();
  } else {
    std::fprintf(stderr, "unknown: %s\n", what.c_str());
    return 2;
  }
  return 0;
}
