// Calls ncclAllReduce of the library it is linked against, a millisecond apart, until it is ended;
// fails where a result is wrong. usage: nccl_target
#include <unistd.h>

#include <cstddef>
#include <cstdio>

extern "C" int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op,
                             void* comm, void* stream);

int main() {
  std::puts("running");
  std::fflush(stdout);
  for (float value = 1;; value += 1) {
    float result = 0;
    if (ncclAllReduce(&value, &result, 1, 7, 0, nullptr, nullptr) != 0 || result != value) return 3;
    usleep(1000);
    if (value > 2500) return 0;
  }
}
