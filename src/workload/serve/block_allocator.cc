#include "src/workload/serve/block_allocator.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace teller::serve {

BlockAllocator::BlockAllocator(int blocks, int block_tokens)
    : blocks_(blocks), block_tokens_(block_tokens), free_(static_cast<std::size_t>(blocks)) {
  std::iota(free_.begin(), free_.end(), 0);
}

bool BlockAllocator::Grow(std::vector<int32_t>& table, int64_t tokens) {
  const int64_t missing = BlocksFor(tokens) - static_cast<int64_t>(table.size());
  if (missing > free_blocks()) return false;
  for (int64_t i = 0; i < missing; ++i) {
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    table.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void BlockAllocator::Release(std::vector<int32_t>& table) {
  for (const int32_t block : table) {
    free_.push_back(block);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }
  table.clear();
}

}  // namespace teller::serve
