// NCCL's collectives, interposed: the agent is loaded before libnccl, so a program that was linked
// against it finds these, which delay where a perturbation asks for it and call the real ones. A
// program with NCCL linked in statically is not reached.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>

#include "src/agent/delays.h"
#include "src/agent/state.h"

namespace teller::agent {

namespace {

constexpr int kNcclSystemError = 2;

/// libnccl is mostly loaded for its user alone (dlopen without RTLD_GLOBAL), where RTLD_NEXT does
/// not see it.
void* FindReal(const char* name) noexcept {
  if (void* next = dlsym(RTLD_NEXT, name)) return next;
  void* library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* real = dlsym(library, name);
  dlclose(library);  // its user keeps it
  return real;
}

template <typename Function, typename... Arguments>
int DelayAndCall(std::atomic<void*>& found, const char* name, Arguments... arguments) noexcept {
  void* real = found.load(std::memory_order_relaxed);
  if (real == nullptr) {
    real = FindReal(name);
    if (real == nullptr) return kNcclSystemError;
    found.store(real, std::memory_order_relaxed);
  }
  if ((Switches() & DelayAtStartBit(TELLER_TARGET_COLLECTIVE)) != 0) {
    DelayAtStart({TELLER_TARGET_COLLECTIVE, name, 0});
  }
  return reinterpret_cast<Function>(real)(arguments...);
}

}  // namespace

}  // namespace teller::agent

// As nccl.h declares them; its enumerations are ints, its handles pointers.
#define TELLER_NCCL_CALL(name, parameters, ...)                                      \
  extern "C" __attribute__((visibility("default"))) int name parameters {            \
    static std::atomic<void*> real;                                                  \
    return teller::agent::DelayAndCall<int(*) parameters>(real, #name, __VA_ARGS__); \
  }

TELLER_NCCL_CALL(ncclAllReduce,
                 (const void* from, void* to, std::size_t count, int type, int op, void* comm,
                  void* stream),
                 from, to, count, type, op, comm, stream)
TELLER_NCCL_CALL(ncclReduce,
                 (const void* from, void* to, std::size_t count, int type, int op, int root,
                  void* comm, void* stream),
                 from, to, count, type, op, root, comm, stream)
TELLER_NCCL_CALL(ncclBroadcast,
                 (const void* from, void* to, std::size_t count, int type, int root, void* comm,
                  void* stream),
                 from, to, count, type, root, comm, stream)
TELLER_NCCL_CALL(ncclAllGather,
                 (const void* from, void* to, std::size_t count, int type, void* comm,
                  void* stream),
                 from, to, count, type, comm, stream)
TELLER_NCCL_CALL(ncclReduceScatter,
                 (const void* from, void* to, std::size_t count, int type, int op, void* comm,
                  void* stream),
                 from, to, count, type, op, comm, stream)
TELLER_NCCL_CALL(ncclSend,
                 (const void* from, std::size_t count, int type, int peer, void* comm,
                  void* stream),
                 from, count, type, peer, comm, stream)
TELLER_NCCL_CALL(ncclRecv,
                 (void* to, std::size_t count, int type, int peer, void* comm, void* stream), to,
                 count, type, peer, comm, stream)
