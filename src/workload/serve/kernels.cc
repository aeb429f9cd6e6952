#include "src/workload/serve/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace teller::serve::kernels {
namespace {

/// Eight partial sums, so that the compiler may use vectors without reordering a sum behind our
/// back.
float Dot(const float* a, const float* b, int64_t count) {
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
  }
  float tail = 0;
  for (; i < count; ++i) tail += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) +
         tail;
}

void NormRow(const float* x, const float* weight, int64_t width, float epsilon, float* out) {
  const float mean_square = Dot(x, x, width) / static_cast<float>(width);
  const float scale = 1.0f / std::sqrt(mean_square + epsilon);
  for (int64_t i = 0; i < width; ++i) out[i] = x[i] * scale * weight[i];
}

void RotateHead(float* head, const float* cos_sin, int64_t width) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float cosine = cos_sin[i], sine = cos_sin[half + i];
    const float low = head[i], high = head[half + i];
    head[i] = low * cosine - high * sine;
    head[half + i] = high * cosine + low * sine;
  }
}

/// Turns scores into weights that add up to one.
void Softmax(std::vector<float>& scores) {
  float largest = scores[0];
  for (const float score : scores) largest = std::max(largest, score);
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - largest);
  for (float& score : scores) score /= sum;
}

/// One query head of one row over `scores.size()` cached positions.
void AttendHead(const PagedAttentionArguments& a, const int32_t* blocks, const float* query,
                int64_t key_value_head, std::vector<float>& scores, float* out) {
  const int64_t width = a.heads.width;
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  const auto cached = [&](const float* cache, std::size_t position) {
    const auto at = static_cast<int64_t>(position);
    const int64_t slot = blocks[at / a.block_tokens] * a.block_tokens + at % a.block_tokens;
    return cache + (slot * a.heads.key_value + key_value_head) * width;
  };
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = scale * Dot(query, cached(a.key_cache, i), width);
  }
  Softmax(scores);
  std::memset(out, 0, static_cast<std::size_t>(width) * sizeof(float));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const float* value = cached(a.value_cache, i);
    for (int64_t j = 0; j < width; ++j) out[j] += scores[i] * value[j];
  }
}

}  // namespace

void Embedding(const int32_t* ids, const float* table, int64_t rows, int64_t width, float* out) {
  SelectRows(table, ids, rows, width, out);
}

void RmsNorm(const float* x, const float* weight, int64_t rows, int64_t width, float epsilon,
             float* out) {
  for (int64_t r = 0; r < rows; ++r)
    NormRow(x + r * width, weight, width, epsilon, out + r * width);
}

void Add(const float* x, int64_t count, float* sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += x[i];
}

void AddRmsNorm(const float* x, float* residual, const float* weight, int64_t rows, int64_t width,
                float epsilon, float* out) {
  Add(x, rows * width, residual);
  RmsNorm(residual, weight, rows, width, epsilon, out);
}

void Rope(float* qkv, const int32_t* positions, const float* cos_sin, int64_t rows,
          const Heads& heads) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = qkv + r * heads.RowWidth();
    const float* angles = cos_sin + positions[r] * heads.width;
    for (int64_t h = 0; h < heads.query + heads.key_value; ++h) {
      RotateHead(row + h * heads.width, angles, heads.width);
    }
  }
}

void ReshapeAndCache(const float* qkv, const int32_t* slots, int64_t rows, const Heads& heads,
                     float* key_cache, float* value_cache) {
  const int64_t cached = heads.key_value * heads.width;
  const auto bytes = static_cast<std::size_t>(cached) * sizeof(float);
  for (int64_t r = 0; r < rows; ++r) {
    const float* key = qkv + r * heads.RowWidth() + heads.query * heads.width;
    std::memcpy(key_cache + slots[r] * cached, key, bytes);
    std::memcpy(value_cache + slots[r] * cached, key + cached, bytes);
  }
}

void PagedAttention(const PagedAttentionArguments& a) {
  const int64_t group = a.heads.query / a.heads.key_value;
  std::vector<float> scores;
  for (int64_t s = 0; s < a.sequence_count; ++s) {
    const Sequence& sequence = a.sequences[s];
    const int32_t* blocks = a.block_tables + s * a.table_width;
    for (int32_t i = 0; i < sequence.rows; ++i) {
      const int64_t row = sequence.first_row + i;
      const float* query = a.qkv + row * a.heads.RowWidth();
      float* out = a.out + row * a.heads.query * a.heads.width;
      scores.resize(static_cast<std::size_t>(sequence.start + i + 1));
      for (int64_t h = 0; h < a.heads.query; ++h) {
        AttendHead(a, blocks, query + h * a.heads.width, h / group, scores,
                   out + h * a.heads.width);
      }
    }
  }
}

void SiluMul(const float* x, int64_t rows, int64_t width, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = x + r * 2 * width;
    for (int64_t i = 0; i < width; ++i) {
      out[r * width + i] = gate[i] / (1.0f + std::exp(-gate[i])) * gate[width + i];
    }
  }
}

void SelectRows(const float* x, const int32_t* rows, int64_t count, int64_t width, float* out) {
  const auto bytes = static_cast<std::size_t>(width) * sizeof(float);
  for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * width, x + rows[i] * width, bytes);
}

void ArgmaxOfShards(const float* x, int64_t parts, int64_t rows, int64_t width, int32_t* out) {
  for (int64_t r = 0; r < rows; ++r) {
    float largest = -INFINITY;
    out[r] = 0;
    for (int64_t p = 0; p < parts; ++p) {
      const float* row = x + (p * rows + r) * width;
      for (int64_t i = 0; i < width; ++i) {
        if (row[i] > largest) {
          largest = row[i];
          out[r] = static_cast<int32_t>(p * width + i);
        }
      }
    }
  }
}

}  // namespace teller::serve::kernels
