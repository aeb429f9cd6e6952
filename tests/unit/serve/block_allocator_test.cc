#include "src/workload/serve/block_allocator.h"

#include <gtest/gtest.h>

namespace teller::serve {
namespace {

TEST(BlockAllocatorTest, GivesTheLowestFreeBlocksAndOnlyWhatIsMissing) {
  BlockAllocator allocator(/*blocks=*/4, /*block_tokens=*/16);
  std::vector<int32_t> a, b;
  EXPECT_TRUE(allocator.Grow(a, 16));
  EXPECT_TRUE(allocator.Grow(b, 17));  // 17 tokens need two blocks
  EXPECT_TRUE(allocator.Grow(a, 16));
  EXPECT_EQ(a, (std::vector<int32_t>{0}));
  EXPECT_EQ(b, (std::vector<int32_t>{1, 2}));
  allocator.Release(a);
  EXPECT_TRUE(allocator.Grow(b, 33));
  EXPECT_EQ(b, (std::vector<int32_t>{1, 2, 0}));
}

TEST(BlockAllocatorTest, ChangesNothingWhenTooFewAreFree) {
  BlockAllocator allocator(2, 16);
  std::vector<int32_t> a, b;
  ASSERT_TRUE(allocator.Grow(a, 16));
  EXPECT_FALSE(allocator.Grow(b, 32));
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(allocator.free_blocks(), 1);
}

}  // namespace
}  // namespace teller::serve
