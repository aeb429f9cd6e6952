// A target that does known numbers of CUDA things through the driver's interface alone: it opens
// libcuda at run time and carries its kernel as PTX, so that it needs no toolkit.
//   cuda_program LAUNCHES COPIES FILLS GRAPH_LAUNCHES
// prints what a collector must count, one NAME=NUMBER a line. Exit code 4: no CUDA device.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kNoDevice = 4;
constexpr int kGraphKernels = 3;
constexpr std::size_t kBytes = 4096;

// add_one(float* data): one thread an element.
constexpr const char* kPtx = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 data) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<2>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [data];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd3, %rd2, %rd3;
  ld.global.f32 %f1, [%rd3];
  add.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%rd3], %f2;
  ret;
}
)";

/// What is used of the driver, by the names that hold since CUDA 12.
struct Driver {
  decltype(&cuInit) init;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDevicePrimaryCtxRetain) retain_context;
  decltype(&cuCtxSetCurrent) set_context;
  decltype(&cuModuleLoadData) load_module;
  decltype(&cuModuleGetFunction) get_function;
  decltype(&cuMemAlloc) allocate;
  decltype(&cuMemcpyHtoD) copy_in;
  decltype(&cuMemcpyDtoH) copy_out;
  decltype(&cuMemsetD8) fill;
  decltype(&cuStreamCreate) create_stream;
  decltype(&cuStreamSynchronize) synchronize;
  decltype(&cuLaunchKernel) launch;
  decltype(&cuStreamBeginCapture) begin_capture;
  decltype(&cuStreamEndCapture) end_capture;
  decltype(&cuGraphInstantiate) instantiate;
  decltype(&cuGraphLaunch) launch_graph;
};

template <typename Function>
bool Find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) std::fprintf(stderr, "libcuda.so.1 has no %s\n", symbol);
  return function != nullptr;
}

bool FindAll(void* library, Driver& cuda) {
  return Find(library, "cuInit", cuda.init) && Find(library, "cuDeviceGet", cuda.device_get) &&
         Find(library, "cuDevicePrimaryCtxRetain", cuda.retain_context) &&
         Find(library, "cuCtxSetCurrent", cuda.set_context) &&
         Find(library, "cuModuleLoadData", cuda.load_module) &&
         Find(library, "cuModuleGetFunction", cuda.get_function) &&
         Find(library, "cuMemAlloc_v2", cuda.allocate) &&
         Find(library, "cuMemcpyHtoD_v2", cuda.copy_in) &&
         Find(library, "cuMemcpyDtoH_v2", cuda.copy_out) &&
         Find(library, "cuMemsetD8_v2", cuda.fill) &&
         Find(library, "cuStreamCreate", cuda.create_stream) &&
         Find(library, "cuStreamSynchronize", cuda.synchronize) &&
         Find(library, "cuLaunchKernel", cuda.launch) &&
         Find(library, "cuStreamBeginCapture_v2", cuda.begin_capture) &&
         Find(library, "cuStreamEndCapture", cuda.end_capture) &&
         Find(library, "cuGraphInstantiateWithFlags", cuda.instantiate) &&
         Find(library, "cuGraphLaunch", cuda.launch_graph);
}

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: CUDA error %d\n", what, static_cast<int>(result));
  std::exit(1);
}

/// A device with the kernel, memory and a stream.
class Work {
 public:
  explicit Work(const Driver& cuda) : cuda_(cuda) {
    CUdevice device = 0;
    CUmodule module = nullptr;
    Check(cuda_.device_get(&device, 0), "cuDeviceGet");
    Check(cuda_.retain_context(&context_, device), "cuDevicePrimaryCtxRetain");
    UseContext();
    Check(cuda_.load_module(&module, kPtx), "cuModuleLoadData");
    Check(cuda_.get_function(&kernel_, module, "add_one"), "cuModuleGetFunction");
    Check(cuda_.allocate(&memory_, kBytes), "cuMemAlloc");
    Check(cuda_.create_stream(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  void UseContext() { Check(cuda_.set_context(context_), "cuCtxSetCurrent"); }
  void Launch(int count) {
    void* parameters[] = {&memory_};
    for (int i = 0; i < count; ++i)
      Check(cuda_.launch(kernel_, 1, 1, 1, 32, 1, 1, 0, stream_, parameters, nullptr),
            "cuLaunchKernel");
    Synchronize();
  }
  void Copy(int count) {
    std::vector<char> host(kBytes);
    for (int i = 0; i < count; ++i) {
      Check(cuda_.copy_in(memory_, host.data(), host.size()), "cuMemcpyHtoD");
      Check(cuda_.copy_out(host.data(), memory_, host.size()), "cuMemcpyDtoH");
    }
  }
  void Fill(int count) {
    for (int i = 0; i < count; ++i) Check(cuda_.fill(memory_, 0, kBytes), "cuMemsetD8");
  }
  /// A graph of kGraphKernels kernels, launched `count` times.
  void LaunchGraph(int count) {
    void* parameters[] = {&memory_};
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    Check(cuda_.begin_capture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
          "cuStreamBeginCapture");
    for (int i = 0; i < kGraphKernels; ++i)
      Check(cuda_.launch(kernel_, 1, 1, 1, 32, 1, 1, 0, stream_, parameters, nullptr), "capture");
    Check(cuda_.end_capture(stream_, &graph), "cuStreamEndCapture");
    Check(cuda_.instantiate(&executable, graph, 0), "cuGraphInstantiate");
    for (int i = 0; i < count; ++i) Check(cuda_.launch_graph(executable, stream_), "cuGraphLaunch");
    Synchronize();
  }
  void Synchronize() { Check(cuda_.synchronize(stream_), "cuStreamSynchronize"); }

 private:
  const Driver& cuda_;
  CUcontext context_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUstream stream_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: cuda_program LAUNCHES COPIES FILLS GRAPH_LAUNCHES\n");
    return 2;
  }
  const int launches = std::atoi(argv[1]), copies = std::atoi(argv[2]), fills = std::atoi(argv[3]),
            graph_launches = std::atoi(argv[4]);
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  Driver cuda{};
  if (library == nullptr || !FindAll(library, cuda) || cuda.init(0) != CUDA_SUCCESS) {
    std::fprintf(stderr, "no CUDA device here\n");
    return kNoDevice;
  }
  Work work(cuda);
  std::thread elsewhere([&] {  // a second thread has buffers of its own
    work.UseContext();
    work.Launch(launches);
  });
  elsewhere.join();
  work.Copy(copies);
  work.Fill(fills);
  work.LaunchGraph(graph_launches);
  std::printf("launch_calls=%d\n", launches + kGraphKernels);  // capturing calls it too
  std::printf("graph_launch_calls=%d\n", graph_launches);
  std::printf("kernels=%d\n", launches + kGraphKernels * graph_launches);
  std::printf("graph_kernels=%d\n", kGraphKernels * graph_launches);
  std::printf("copies=%d\n", 2 * copies);
  std::printf("fills=%d\n", fills);
  return 0;
}
