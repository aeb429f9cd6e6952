#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "src/workload/serve/cpu_stream.h"
#include "src/workload/serve/kernels.h"
#include "src/workload/serve/process_group.h"

namespace teller::serve {

/// Where the operators run. Torch operators are free functions without a state of their own, so the
/// device, stream and group that they use are set here, once, before the first call.
struct OperatorContext {
  CpuDevice* device = nullptr;
  CpuDevice::Stream stream{};
  ProcessGroup* tensor_group = nullptr;    ///< null: one rank a stage
  ProcessGroup* pipeline_group = nullptr;  ///< null: one stage
};
void SetOperatorContext(const OperatorContext& context);

// The operators of the decoder, registered as torch operators 'teller::NAME' and called through the
// dispatcher, so that every observer of torch operators sees them. Each allocates its result,
// launches its kernel and returns; results are ready when the stream has come there. float32 unless
// said otherwise; ids and positions are int32.
namespace operators {

/// ids [rows], table [vocabulary, width] -> [rows, width]
at::Tensor Embedding(const at::Tensor& ids, const at::Tensor& table);
/// x [rows, width], weight [width] -> [rows, width]
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight);
/// Adds x to residual in place and normalises the sum.
at::Tensor AddRmsNorm(const at::Tensor& x, at::Tensor& residual, const at::Tensor& weight);
/// x [rows, k], weight [n, k] -> [rows, n]
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight);
/// Rotates queries and keys of qkv [rows, (heads + 2 kv_heads) width] in place; cos_sin [positions,
/// width].
void Rope(at::Tensor& qkv, const at::Tensor& positions, const at::Tensor& cos_sin, int64_t heads,
          int64_t kv_heads);
/// Copies keys and values of qkv into the caches [slots, kv_heads, width] at `slots` [rows].
void ReshapeAndCache(const at::Tensor& qkv, const at::Tensor& slots, at::Tensor& key_cache,
                     at::Tensor& value_cache);
/// sequences [count, 3] (first row, rows, start), block_tables [count, blocks] -> [rows, heads *
/// width]
at::Tensor PagedAttention(const at::Tensor& qkv, const at::Tensor& key_cache,
                          const at::Tensor& value_cache, const at::Tensor& sequences,
                          const at::Tensor& block_tables, int64_t block_tokens);
/// x [rows, 2 width] -> [rows, width]
at::Tensor SiluMul(const at::Tensor& x);
/// Sums x over the ranks of the tensor group, in place.
void AllReduce(at::Tensor& x);
/// x [rows, width] -> [ranks, rows, width]
at::Tensor AllGather(const at::Tensor& x);
/// residual += x.
void Add(const at::Tensor& x, at::Tensor& residual);
/// x to stage `peer`, or filled with what it sends.
void Send(const at::Tensor& x, int64_t peer);
void Receive(at::Tensor& x, int64_t peer);
/// x [*, width], rows [count] -> [count, width]
at::Tensor SelectRows(const at::Tensor& x, const at::Tensor& rows);
/// logits [parts, rows, width] -> int32 [rows]
at::Tensor Argmax(const at::Tensor& logits);

}  // namespace operators
}  // namespace teller::serve
