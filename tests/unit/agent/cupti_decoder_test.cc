// Activity buffers made by hand, walked by real libcuptis: no GPU and no driver is needed for that.
#include "src/agent/cupti_decoder.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace teller::agent {
namespace {

/// Records one behind the other, as CUPTI leaves them.
class Buffer {
 public:
  template <typename Activity>
  void Add(const Activity& activity) {
    const std::size_t at = words_.size();
    words_.resize(at + sizeof activity / sizeof(uint64_t));
    std::memcpy(&words_[at], &activity, sizeof activity);
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(words_.data()); }
  std::size_t size() const { return words_.size() * sizeof(uint64_t); }

 private:
  std::vector<uint64_t> words_;
};

class Kept final : public CuptiReceiver {
 public:
  void Take(const CuptiEvent& event) noexcept override { events.push_back(event); }
  std::vector<CuptiEvent> events;
};

struct Library {
  const char* name;
  std::string path;
};

void PrintTo(const Library& library, std::ostream* out) { *out << library.name; }

class CuptiDecoderTest : public ::testing::TestWithParam<Library> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GetParam().path)) GTEST_SKIP() << "not there: " << GetParam().path;
    void* library = dlopen(GetParam().path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    cupti_.next_record = reinterpret_cast<decltype(cupti_.next_record)>(
        dlsym(library, "cuptiActivityGetNextRecord"));
    cupti_.callback_name =
        reinterpret_cast<decltype(cupti_.callback_name)>(dlsym(library, "cuptiGetCallbackName"));
    ASSERT_NE(cupti_.next_record, nullptr);
    ASSERT_NE(cupti_.callback_name, nullptr);
  }
  bool is_13() const { return std::string(GetParam().name) == "Cupti13"; }

  /// The kernel, copy and fill records of this library's version.
  void AddKernel(Buffer& buffer, const char* name, uint64_t node) {
    is_13() ? AddKernelAs<CUpti_ActivityKernel10>(buffer, name, node)
            : AddKernelAs<CUpti_ActivityKernel9>(buffer, name, node);
  }
  template <typename Kernel>
  static void AddKernelAs(Buffer& buffer, const char* name, uint64_t node) {
    Kernel kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.start = 2000;
    kernel.end = 2500;
    kernel.streamId = 7;
    kernel.correlationId = 41;
    kernel.graphNodeId = node;
    kernel.name = name;
    buffer.Add(kernel);
  }

  /// Device work is kept where it has a begin and an end.
  template <typename Activity>
  static Activity Ended(CUpti_ActivityKind kind) {
    Activity activity{};
    activity.kind = kind;
    activity.start = 10;
    activity.end = 20;
    return activity;
  }

  CuptiFunctions cupti_{};
  Kept kept_;
};

TEST_P(CuptiDecoderTest, DecodesCallsAndTheWorkTheyStart) {
  Buffer buffer;
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.cbid = 211;  // cudaLaunchKernel_v7000
  call.start = 1000;
  call.end = 1100;
  call.threadId = 12;
  call.correlationId = 41;
  buffer.Add(call);
  AddKernel(buffer, "gemm", 0);
  AddKernel(buffer, "in_graph", 99);
  const CuptiCounts counts = DecodeCuptiBuffer(cupti_, buffer.data(), buffer.size(), kept_);
  EXPECT_EQ(counts.events, 3u);
  EXPECT_FALSE(counts.damaged);
  ASSERT_EQ(kept_.events.size(), 3u);
  EXPECT_THAT(kept_.events[0].name, testing::HasSubstr("cudaLaunchKernel"));
  EXPECT_EQ(kept_.events[0].record.layer, TELLER_LAYER_HOST_API);
  EXPECT_EQ(kept_.events[0].record.kind, TELLER_KIND_LAUNCH);
  EXPECT_EQ(kept_.events[0].record.track, 12u);
  const TellerRecord& kernel = kept_.events[1].record;
  EXPECT_STREQ(kept_.events[1].name, "gemm");
  EXPECT_EQ(kernel.kind, TELLER_KIND_KERNEL);
  EXPECT_EQ(kernel.begin, 2000u);
  EXPECT_EQ(kernel.end, 2500u);
  EXPECT_EQ(kernel.track, 7u);
  EXPECT_EQ(kernel.correlation, 41u);
  EXPECT_EQ(kernel.flags, TELLER_RECORD_ON_DEVICE);
  EXPECT_EQ(kept_.events[2].record.graph_node, 99u);
}

TEST_P(CuptiDecoderTest, MakesNcclKernelsCommEvents) {
  Buffer buffer;
  AddKernel(buffer, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 0);
  AddKernel(buffer, "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE", 0);
  DecodeCuptiBuffer(cupti_, buffer.data(), buffer.size(), kept_);
  ASSERT_EQ(kept_.events.size(), 2u);
  EXPECT_EQ(kept_.events[0].record.layer, TELLER_LAYER_COMM);
  EXPECT_EQ(kept_.events[0].record.kind, TELLER_KIND_COLLECTIVE);
  EXPECT_EQ(kept_.events[1].record.kind, TELLER_KIND_P2P);
}

// The structures of CUPTI 12.8 and 13.0.
TEST_P(CuptiDecoderTest, DecodesCopiesFillsAndWaits) {
  Buffer buffer;
  auto copy = Ended<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.bytes = 4096;
  buffer.Add(copy);
  auto fill = Ended<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  fill.bytes = 64;
  buffer.Add(fill);
  auto sync = Ended<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  sync.streamId = 3;
  buffer.Add(sync);
  auto graph = Ended<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  graph.correlationId = 5;
  buffer.Add(graph);
  auto peer = Ended<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.bytes = 8192;
  peer.streamId = 9;
  buffer.Add(peer);
  DecodeCuptiBuffer(cupti_, buffer.data(), buffer.size(), kept_);
  ASSERT_EQ(kept_.events.size(), 5u);
  EXPECT_STREQ(kept_.events[4].name, "Memcpy PtoP");
  EXPECT_EQ(kept_.events[4].record.bytes, 8192);
  EXPECT_EQ(kept_.events[4].record.track, 9u);
  EXPECT_EQ(kept_.events[3].record.kind, TELLER_KIND_GRAPH);
  EXPECT_EQ(kept_.events[3].record.correlation, 5u);
  EXPECT_STREQ(kept_.events[0].name, "Memcpy HtoD");
  EXPECT_EQ(kept_.events[0].record.bytes, 4096);
  EXPECT_EQ(kept_.events[1].record.kind, TELLER_KIND_MEMSET);
  EXPECT_EQ(kept_.events[1].record.bytes, 64);
  EXPECT_STREQ(kept_.events[2].name, "Stream Sync");
  EXPECT_EQ(kept_.events[2].record.track, 3u);
}

TEST_P(CuptiDecoderTest, GivesCallsTheNumberOfTheirOperator) {
  Buffer buffer;
  CUpti_ActivityExternalCorrelation external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = kOperatorCorrelation;
  external.externalId = 9;
  external.correlationId = 41;
  buffer.Add(external);
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;  // another tool's
  external.externalId = 77;
  buffer.Add(external);
  auto call = Ended<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  call.correlationId = 41;
  buffer.Add(call);
  call.correlationId = 42;
  buffer.Add(call);
  AddKernel(buffer, "gemm", 0);
  DecodeCuptiBuffer(cupti_, buffer.data(), buffer.size(), kept_);
  ASSERT_EQ(kept_.events.size(), 3u);
  EXPECT_EQ(kept_.events[0].record.sequence, 9);
  EXPECT_EQ(kept_.events[1].record.sequence, -1);
  EXPECT_EQ(kept_.events[2].record.sequence, -1);
}

TEST_P(CuptiDecoderTest, CountsOverheadAndWorkThatHadNotEnded) {
  Buffer buffer;
  buffer.Add(Ended<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD));  // since 12.8
  auto fill = Ended<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  fill.end = 0;
  buffer.Add(fill);
  const CuptiCounts counts = DecodeCuptiBuffer(cupti_, buffer.data(), buffer.size(), kept_);
  EXPECT_EQ(counts.overhead_ns, 10u);
  EXPECT_EQ(counts.untimed, 1u);
  EXPECT_EQ(counts.events, 0u);
  EXPECT_FALSE(counts.damaged);
}

TEST_P(CuptiDecoderTest, CountsWhatItDoesNotKeepAndSaysWhenTheBufferIsDamaged) {
  Buffer buffer;
  CUpti_ActivityDeviceAttribute attribute{};
  attribute.kind = CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE;
  buffer.Add(attribute);
  CuptiCounts counts = DecodeCuptiBuffer(cupti_, buffer.data(), buffer.size(), kept_);
  EXPECT_EQ(counts.ignored, 1u);
  EXPECT_EQ(counts.events, 0u);
  EXPECT_FALSE(counts.damaged);
  uint64_t nonsense[8] = {0xffffffffffffffffull};
  counts = DecodeCuptiBuffer(cupti_, reinterpret_cast<uint8_t*>(nonsense), sizeof nonsense, kept_);
  EXPECT_TRUE(counts.damaged);
}

INSTANTIATE_TEST_SUITE_P(RealLibraries, CuptiDecoderTest,
                         ::testing::Values(Library{"Cupti12", TELLER_CUPTI12_LIBRARY},
                                           Library{"Cupti13", TELLER_CUPTI13_LIBRARY}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace teller::agent
