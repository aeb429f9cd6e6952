// A target for tests: a C++ program that opens torch after a while, and multiplies by its C
// interface.
//   torch_late_program LIBTORCH_CPU [COUNT]
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr unsigned kLooksForTorchUs =
    300'000;  // the agent does so every 10 ms; a test counts from here

template <typename Function>
Function Find(void* library, const char* symbol) {
  void* found = dlsym(library, symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

void* Ones(void* library) {
  const auto make =
      Find<int32_t (*)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, void**)>(
          library, "aoti_torch_empty_strided");
  const int32_t float32 = Find<int32_t (*)()>(library, "aoti_torch_dtype_float32")();
  const int32_t cpu = Find<int32_t (*)()>(library, "aoti_torch_device_type_cpu")();
  constexpr int64_t kSizes[] = {4, 4}, kStrides[] = {4, 1};
  void* tensor = nullptr;
  make(2, kSizes, kStrides, float32, cpu, 0, &tensor);
  return tensor;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  usleep(50'000);
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  usleep(kLooksForTorchUs);
  const int count = argc > 2 ? std::atoi(argv[2]) : 0;
  if (count == 0) return 0;
  void* x = Ones(library);
  void* out = Ones(library);
  const auto multiply = Find<int32_t (*)(void*, void*, void*)>(library, "aoti_torch_mm_out");
  for (int i = 0; i < count; ++i) multiply(out, x, x);
  return 0;
}
