// NVTX as a program has it, in a library of its own with its own NVTX state, which is also the
// smallest tool: callbacks that do nothing. Opened with NVTX_INJECTION64_PATH naming it, its pairs
// cost what calling any tool costs; with the variable unset, what no tool costs.
#include "tests/benchmarks/nvtx_loop.h"

#include <nvtx3/nvToolsExt.h>
#include <time.h>

namespace {

int EmptyPush(const char*) { return 0; }
int EmptyPop() { return 0; }

int64_t CpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

int64_t TellerRunNvtxPairs(int64_t count) {
  const int64_t begin_ns = CpuNs();
  for (int64_t i = 0; i < count; ++i) {
    nvtxRangePushA("benchmark range");
    nvtxRangePop();
  }
  return CpuNs() - begin_ns;
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE_RangePop)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(EmptyPush);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(EmptyPop);
  return 1;
}
