#include "src/workload/serve/operators.h"

#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include <utility>

#include "src/core/error.h"

// The Fortran interface of the BLAS inside libtorch_cpu: no torch operator runs inside a kernel, so
// that observers of operators see each 'teller::linear' once. Matrices are column-major.
extern "C" void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace teller::serve {
namespace {

using at::Tensor;

constexpr float kEpsilon = 1e-5f;

OperatorContext context;

/// Allocates without a torch operator of its own.
Tensor Allocate(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::detail::empty_cpu(sizes, type);
}

const float* Floats(const Tensor& tensor) { return tensor.const_data_ptr<float>(); }
float* MutableFloats(const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }
const int32_t* Ints(const Tensor& tensor) { return tensor.const_data_ptr<int32_t>(); }

void Launch(const char* kernel, std::function<void()> work) {
  context.device->Launch(context.stream, kernel, std::move(work));
}

/// x [rows, k] times the transpose of weight [n, k].
void LinearKernel(const Tensor& x, const Tensor& weight, const Tensor& out) {
  const int rows = static_cast<int>(x.size(0));
  const int n = static_cast<int>(weight.size(0)), k = static_cast<int>(weight.size(1));
  const float one = 1, zero = 0;
  sgemm_("T", "N", &n, &rows, &k, &one, Floats(weight), &k, Floats(x), &k, &zero,
         MutableFloats(out), &n);
}

Tensor EmbeddingOperator(const Tensor& ids, const Tensor& table) {
  Tensor out = Allocate({ids.size(0), table.size(1)});
  Launch("embedding_f32_kernel", [=] {
    kernels::Embedding(Ints(ids), Floats(table), ids.size(0), table.size(1), MutableFloats(out));
  });
  return out;
}

Tensor RmsNormOperator(const Tensor& x, const Tensor& weight) {
  Tensor out = Allocate(x.sizes());
  Launch("rms_norm_f32_kernel", [=] {
    kernels::RmsNorm(Floats(x), Floats(weight), x.size(0), x.size(1), kEpsilon, MutableFloats(out));
  });
  return out;
}

Tensor AddRmsNormOperator(const Tensor& x, Tensor& residual, const Tensor& weight) {
  Tensor out = Allocate(x.sizes());
  Launch("add_rms_norm_f32_kernel", [=] {
    kernels::AddRmsNorm(Floats(x), MutableFloats(residual), Floats(weight), x.size(0), x.size(1),
                        kEpsilon, MutableFloats(out));
  });
  return out;
}

Tensor LinearOperator(const Tensor& x, const Tensor& weight) {
  Tensor out = Allocate({x.size(0), weight.size(0)});
  Launch("linear_f32_kernel", [=] { LinearKernel(x, weight, out); });
  return out;
}

kernels::Heads HeadsOf(int64_t row_width, int64_t heads, int64_t kv_heads) {
  return {.query = heads, .key_value = kv_heads, .width = row_width / (heads + 2 * kv_heads)};
}

void RopeOperator(Tensor& qkv, const Tensor& positions, const Tensor& cos_sin, int64_t heads,
                  int64_t kv_heads) {
  const kernels::Heads layout = HeadsOf(qkv.size(1), heads, kv_heads);
  Launch("rope_f32_kernel", [=] {
    kernels::Rope(MutableFloats(qkv), Ints(positions), Floats(cos_sin), qkv.size(0), layout);
  });
}

kernels::Heads HeadsOfCache(const Tensor& qkv, const Tensor& cache) {
  const int64_t kv_heads = cache.size(1), width = cache.size(2);
  return {.query = qkv.size(1) / width - 2 * kv_heads, .key_value = kv_heads, .width = width};
}

void ReshapeAndCacheOperator(const Tensor& qkv, const Tensor& slots, Tensor& key_cache,
                             Tensor& value_cache) {
  const kernels::Heads layout = HeadsOfCache(qkv, key_cache);
  Launch("reshape_and_cache_f32_kernel", [=] {
    kernels::ReshapeAndCache(Floats(qkv), Ints(slots), qkv.size(0), layout,
                             MutableFloats(key_cache), MutableFloats(value_cache));
  });
}

Tensor PagedAttentionOperator(const Tensor& qkv, const Tensor& key_cache, const Tensor& value_cache,
                              const Tensor& sequences, const Tensor& block_tables,
                              int64_t block_tokens) {
  const kernels::Heads layout = HeadsOfCache(qkv, key_cache);
  Tensor out = Allocate({qkv.size(0), layout.query * layout.width});
  Launch("paged_attention_f32_kernel", [=] {
    kernels::PagedAttention(
        {.qkv = Floats(qkv),
         .key_cache = Floats(key_cache),
         .value_cache = Floats(value_cache),
         .sequences = reinterpret_cast<const kernels::Sequence*>(Ints(sequences)),
         .sequence_count = sequences.size(0),
         .block_tables = Ints(block_tables),
         .table_width = block_tables.size(1),
         .block_tokens = block_tokens,
         .heads = layout,
         .out = MutableFloats(out)});
  });
  return out;
}

Tensor SiluMulOperator(const Tensor& x) {
  Tensor out = Allocate({x.size(0), x.size(1) / 2});
  Launch("silu_mul_f32_kernel",
         [=] { kernels::SiluMul(Floats(x), x.size(0), x.size(1) / 2, MutableFloats(out)); });
  return out;
}

CpuDevice::Collective Describe(ProcessGroup& group, const char* name, const Tensor& x) {
  return {.name = name,
          .comm = group.name(),
          .bytes = static_cast<int64_t>(x.nbytes()),
          .sequence = group.NextSequence()};
}

void AllReduceOperator(Tensor& x) {
  ProcessGroup& group = *context.tensor_group;
  context.device->Enqueue(context.stream, Describe(group, "all_reduce", x),
                          [&group, x] { group.AllReduce(x); });
}

Tensor AllGatherOperator(const Tensor& x) {
  ProcessGroup& group = *context.tensor_group;
  Tensor out = Allocate({group.size(), x.size(0), x.size(1)});
  context.device->Enqueue(context.stream, Describe(group, "all_gather", x),
                          [&group, out, x] { group.AllGather(out, x); });
  return out;
}

void AddOperator(const Tensor& x, Tensor& residual) {
  Launch("add_f32_kernel", [=] { kernels::Add(Floats(x), x.numel(), MutableFloats(residual)); });
}

CpuDevice::Collective DescribeMessage(const char* name, const Tensor& x, int peer,
                                      int32_t sequence) {
  return {.name = name,
          .comm = context.pipeline_group->name(),
          .bytes = static_cast<int64_t>(x.nbytes()),
          .sequence = sequence,
          .peer = peer};
}

void SendOperator(const Tensor& x, int64_t peer) {
  ProcessGroup& group = *context.pipeline_group;
  const int to = static_cast<int>(peer);
  context.device->Enqueue(context.stream,
                          DescribeMessage("send", x, to, group.NextSendSequence(to)),
                          [&group, x, to] { group.Send(x, to); });
}

void ReceiveOperator(Tensor& x, int64_t peer) {
  ProcessGroup& group = *context.pipeline_group;
  const int from = static_cast<int>(peer);
  context.device->Enqueue(context.stream,
                          DescribeMessage("receive", x, from, group.NextReceiveSequence(from)),
                          [&group, x, from] { group.Receive(x, from); });
}

Tensor SelectRowsOperator(const Tensor& x, const Tensor& rows) {
  Tensor out = Allocate({rows.size(0), x.size(1)});
  Launch("select_rows_f32_kernel", [=] {
    kernels::SelectRows(Floats(x), Ints(rows), rows.size(0), x.size(1), MutableFloats(out));
  });
  return out;
}

Tensor ArgmaxOperator(const Tensor& logits) {
  Tensor out = Allocate({logits.size(1)}, at::kInt);
  Launch("argmax_f32_kernel", [=] {
    kernels::ArgmaxOfShards(Floats(logits), logits.size(0), logits.size(1), logits.size(2),
                            out.mutable_data_ptr<int32_t>());
  });
  return out;
}

/// The dispatcher's handle of an operator with the C++ signature of `Function`.
template <typename Function>
auto Handle(const char* name, Function* /*signature*/) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace

TORCH_LIBRARY(teller, library) {
  library.def("embedding(Tensor ids, Tensor table) -> Tensor");
  library.def("rms_norm(Tensor x, Tensor weight) -> Tensor");
  library.def("add_rms_norm(Tensor x, Tensor(a!) residual, Tensor weight) -> Tensor");
  library.def("linear(Tensor x, Tensor weight) -> Tensor");
  library.def(
      "rope(Tensor(a!) qkv, Tensor positions, Tensor cos_sin, int heads, int kv_heads) -> ()");
  library.def(
      "reshape_and_cache(Tensor qkv, Tensor slots, Tensor(a!) key_cache, Tensor(b!) value_cache) "
      "-> ()");
  library.def(
      "paged_attention(Tensor qkv, Tensor key_cache, Tensor value_cache, Tensor sequences, "
      "Tensor block_tables, int block_tokens) -> Tensor");
  library.def("silu_mul(Tensor x) -> Tensor");
  library.def("all_reduce(Tensor(a!) x) -> ()");
  library.def("all_gather(Tensor x) -> Tensor");
  library.def("add(Tensor x, Tensor(a!) residual) -> ()");
  library.def("send(Tensor x, int peer) -> ()");
  library.def("receive(Tensor(a!) x, int peer) -> ()");
  library.def("select_rows(Tensor x, Tensor rows) -> Tensor");
  library.def("argmax(Tensor logits) -> Tensor");
}

TORCH_LIBRARY_IMPL(teller, CPU, library) {
  library.impl("embedding", &EmbeddingOperator);
  library.impl("rms_norm", &RmsNormOperator);
  library.impl("add_rms_norm", &AddRmsNormOperator);
  library.impl("linear", &LinearOperator);
  library.impl("rope", &RopeOperator);
  library.impl("reshape_and_cache", &ReshapeAndCacheOperator);
  library.impl("paged_attention", &PagedAttentionOperator);
  library.impl("silu_mul", &SiluMulOperator);
  library.impl("all_reduce", &AllReduceOperator);
  library.impl("all_gather", &AllGatherOperator);
  library.impl("add", &AddOperator);
  library.impl("send", &SendOperator);
  library.impl("receive", &ReceiveOperator);
  library.impl("select_rows", &SelectRowsOperator);
  library.impl("argmax", &ArgmaxOperator);
}

void SetOperatorContext(const OperatorContext& wanted) { context = wanted; }

namespace operators {

Tensor Embedding(const Tensor& ids, const Tensor& table) {
  static const auto handle = Handle("teller::embedding", &EmbeddingOperator);
  return handle.call(ids, table);
}

Tensor RmsNorm(const Tensor& x, const Tensor& weight) {
  static const auto handle = Handle("teller::rms_norm", &RmsNormOperator);
  return handle.call(x, weight);
}

Tensor AddRmsNorm(const Tensor& x, Tensor& residual, const Tensor& weight) {
  static const auto handle = Handle("teller::add_rms_norm", &AddRmsNormOperator);
  return handle.call(x, residual, weight);
}

Tensor Linear(const Tensor& x, const Tensor& weight) {
  static const auto handle = Handle("teller::linear", &LinearOperator);
  return handle.call(x, weight);
}

void Rope(Tensor& qkv, const Tensor& positions, const Tensor& cos_sin, int64_t heads,
          int64_t kv_heads) {
  static const auto handle = Handle("teller::rope", &RopeOperator);
  handle.call(qkv, positions, cos_sin, heads, kv_heads);
}

void ReshapeAndCache(const Tensor& qkv, const Tensor& slots, Tensor& key_cache,
                     Tensor& value_cache) {
  static const auto handle = Handle("teller::reshape_and_cache", &ReshapeAndCacheOperator);
  handle.call(qkv, slots, key_cache, value_cache);
}

Tensor PagedAttention(const Tensor& qkv, const Tensor& key_cache, const Tensor& value_cache,
                      const Tensor& sequences, const Tensor& block_tables, int64_t block_tokens) {
  static const auto handle = Handle("teller::paged_attention", &PagedAttentionOperator);
  return handle.call(qkv, key_cache, value_cache, sequences, block_tables, block_tokens);
}

Tensor SiluMul(const Tensor& x) {
  static const auto handle = Handle("teller::silu_mul", &SiluMulOperator);
  return handle.call(x);
}

void AllReduce(Tensor& x) {
  static const auto handle = Handle("teller::all_reduce", &AllReduceOperator);
  handle.call(x);
}

Tensor AllGather(const Tensor& x) {
  static const auto handle = Handle("teller::all_gather", &AllGatherOperator);
  return handle.call(x);
}

void Add(const Tensor& x, Tensor& residual) {
  static const auto handle = Handle("teller::add", &AddOperator);
  handle.call(x, residual);
}

void Send(const Tensor& x, int64_t peer) {
  static const auto handle = Handle("teller::send", &SendOperator);
  handle.call(x, peer);
}

void Receive(Tensor& x, int64_t peer) {
  static const auto handle = Handle("teller::receive", &ReceiveOperator);
  handle.call(x, peer);
}

Tensor SelectRows(const Tensor& x, const Tensor& rows) {
  static const auto handle = Handle("teller::select_rows", &SelectRowsOperator);
  return handle.call(x, rows);
}

Tensor Argmax(const Tensor& logits) {
  static const auto handle = Handle("teller::argmax", &ArgmaxOperator);
  return handle.call(logits);
}

}  // namespace operators
}  // namespace teller::serve
