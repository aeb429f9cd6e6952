// Stands in for libnccl: an all-reduce over one rank that copies. Fake, for tests only.
#include <cstddef>
#include <cstring>

extern "C" int ncclAllReduce(const void* from, void* to, std::size_t count, int, int, void*,
                             void*) {
  std::memcpy(to, from, count * sizeof(float));
  return 0;
}
