#pragma once

#include <cstdint>

namespace teller::serve::kernels {

// Float32 kernels of the decoder, row-major, one thread. They are what runs on a stream; no torch.

/// out[i] = table[ids[i]].  table [*, width], out [rows, width]
void Embedding(const int32_t* ids, const float* table, int64_t rows, int64_t width, float* out);

/// out = x / rms(x) * weight per row.  x, out [rows, width]
void RmsNorm(const float* x, const float* weight, int64_t rows, int64_t width, float epsilon,
             float* out);

/// sum += x.
void Add(const float* x, int64_t count, float* sum);

/// residual += x, out = RmsNorm(residual).
void AddRmsNorm(const float* x, float* residual, const float* weight, int64_t rows, int64_t width,
                float epsilon, float* out);

/// Head counts of one rank, and the layout of a fused row: queries, then keys, then values.
struct Heads {
  int64_t query = 0;
  int64_t key_value = 0;
  int64_t width = 0;  ///< of one head, even
  int64_t RowWidth() const { return (query + 2 * key_value) * width; }
};

/// Rotates queries and keys of fused rows in place (rotate-half, base 10000).
/// cos_sin [max_length, width]: cosines, then sines, of one position. qkv [rows, RowWidth()]
void Rope(float* qkv, const int32_t* positions, const float* cos_sin, int64_t rows,
          const Heads& heads);

/// Copies keys and values of fused rows into the paged cache at slots[i] = block * block_tokens +
/// offset. caches [slots, key_value, width]
void ReshapeAndCache(const float* qkv, const int32_t* slots, int64_t rows, const Heads& heads,
                     float* key_cache, float* value_cache);

/// Where one request's rows of a step stand.
struct Sequence {
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t start = 0;  ///< position of the first row
};

/// Causal attention of every row over its request's cached positions.
/// block_tables [sequences, table_width]; out [rows, query * width]
struct PagedAttentionArguments {
  const float* qkv = nullptr;
  const float* key_cache = nullptr;
  const float* value_cache = nullptr;
  const Sequence* sequences = nullptr;
  int64_t sequence_count = 0;
  const int32_t* block_tables = nullptr;
  int64_t table_width = 0;
  int64_t block_tokens = 0;
  Heads heads;
  float* out = nullptr;
};
void PagedAttention(const PagedAttentionArguments& arguments);

/// out = silu(x[:, :width]) * x[:, width:].  x [rows, 2 width], out [rows, width]
void SiluMul(const float* x, int64_t rows, int64_t width, float* out);

/// out[i] = x[rows[i]].  x [*, width], out [count, width]
void SelectRows(const float* x, const int32_t* rows, int64_t count, int64_t width, float* out);

/// out[i] = index of the largest of row i, the first where equal. x is sharded by columns: parts
/// blocks of [rows, width], one after the other.
void ArgmaxOfShards(const float* x, int64_t parts, int64_t rows, int64_t width, int32_t* out);

}  // namespace teller::serve::kernels
