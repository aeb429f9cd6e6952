#include <benchmark/benchmark.h>

#include <algorithm>

#include "src/core/random.h"
#include "src/reconstruct/call_tree.h"

namespace teller::reconstruct {
namespace {

// One rank as the collector writes it: records in the order of their ends (a child before its
// parent), a host thread with calls nested to `depth`, every fourth leaf launching onto a stream.
class SyntheticProcess {
 public:
  explicit SyntheticProcess(std::size_t count) : count_(count), random_(7) {
    events_.Reserve(count + 16);
    while (events_.size() < count_) Call(0);
  }
  const trace::EventTable& events() const { return events_; }

 private:
  void Call(int depth) {
    const int64_t begin_ns = now_ns_;
    now_ns_ += random_.UniformInt(200, 2000);
    const int64_t children = depth >= 6 ? 0 : random_.UniformInt(0, 3);
    for (int64_t i = 0; i < children && events_.size() < count_; ++i) Call(depth + 1);
    now_ns_ += random_.UniformInt(200, 2000);
    events_.Append({.begin_ns = begin_ns,
                    .end_ns = now_ns_,
                    .name = StringId{static_cast<uint32_t>(depth)},
                    .layer = trace::Layer::kBackend,
                    .kind = trace::Kind::kOperator,
                    .track = 1});
    if (children == 0 && random_.Bernoulli(0.25)) Launch();
  }
  void Launch() {
    stream_ns_ = std::max(stream_ns_, now_ns_) + 500;
    const int64_t begin_ns = stream_ns_;
    stream_ns_ += random_.UniformInt(1000, 5000);
    events_.Append({.begin_ns = begin_ns,
                    .end_ns = stream_ns_,
                    .name = StringId{9},
                    .layer = trace::Layer::kDevice,
                    .kind = trace::Kind::kKernel,
                    .track = 7,
                    .flags = trace::kFlagOnDevice});
  }

  std::size_t count_;
  Random random_;
  trace::EventTable events_;
  int64_t now_ns_ = 1'000'000'000'000, stream_ns_ = 0;
};

void BM_CallTreeBuild(benchmark::State& state) {
  const SyntheticProcess process(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    TreeStats stats;
    benchmark::DoNotOptimize(BuildCallTrees(process.events(), stats));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(process.events().size()));
}
BENCHMARK(BM_CallTreeBuild)->Arg(4096)->Arg(65536)->Arg(1048576);

}  // namespace
}  // namespace teller::reconstruct
