// A target for tests: calls the real NCCL, which refuses for want of a GPU and emits its NVTX
// ranges all the same.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  constexpr int kFloat = 7, kMax = 2;
  using AllReduce = int (*)(const void*, void*, std::size_t, int, int, void*, void*);
  using Send = int (*)(const void*, std::size_t, int, int, void*, void*);
  float data[4] = {};
  const auto all_reduce = reinterpret_cast<AllReduce>(dlsym(library, "ncclAllReduce"));
  const auto send = reinterpret_cast<Send>(dlsym(library, "ncclSend"));
  all_reduce(data, data, 1000, kFloat, kMax, nullptr, nullptr);
  send(data, 10, kFloat, 3, nullptr, nullptr);
  constexpr int kSum = 0;
  using Receive = int (*)(void*, std::size_t, int, int, void*, void*);
  using AllGather = int (*)(const void*, void*, std::size_t, int, void*, void*);
  using Broadcast = int (*)(const void*, void*, std::size_t, int, int, void*, void*);
  reinterpret_cast<Receive>(dlsym(library, "ncclRecv"))(data, 10, kFloat, 2, nullptr, nullptr);
  reinterpret_cast<AllGather>(dlsym(library, "ncclAllGather"))(data, data, 100, kFloat, nullptr,
                                                               nullptr);
  reinterpret_cast<AllReduce>(dlsym(library, "ncclReduceScatter"))(data, data, 200, kFloat, kSum,
                                                                   nullptr, nullptr);
  reinterpret_cast<Broadcast>(dlsym(library, "ncclBroadcast"))(data, data, 100, kFloat, 1, nullptr,
                                                               nullptr);
  return 0;
}
