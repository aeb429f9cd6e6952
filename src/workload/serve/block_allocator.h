#pragma once

#include <cstdint>
#include <vector>

namespace teller::serve {

/// Blocks of the paged KV cache: which are free, which belong to whom. A block holds `block_tokens`
/// tokens of one request. The lowest free block is given first, so that equal requests get equal
/// blocks.
class BlockAllocator {
 public:
  BlockAllocator(int blocks, int block_tokens);

  /// Extends `table` until it holds `tokens` tokens. False, and nothing changed, when too few
  /// blocks are free.
  bool Grow(std::vector<int32_t>& table, int64_t tokens);
  /// Gives all blocks of `table` back and empties it.
  void Release(std::vector<int32_t>& table);

  int free_blocks() const { return static_cast<int>(free_.size()); }
  int blocks() const { return blocks_; }
  int64_t BlocksFor(int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

 private:
  int blocks_;
  int block_tokens_;
  std::vector<int32_t> free_;  ///< a min-heap
};

}  // namespace teller::serve
