#include <arrow/buffer.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "manta/base/error.h"
#include "manta/data/slab_memory_internal.h"

namespace manta::data {
namespace {

TEST(SlabMemoryTest, BlocksAreApartAndOutliveIt) {
  std::vector<std::shared_ptr<arrow::Buffer>> blocks;
  {
    SlabMemory memory;
    for (int64_t bytes : {1, 100, 16 << 20, 64, 15 << 20, 17 << 20, 0, 7}) {
      blocks.push_back(memory.take(bytes, "a test"));
      ASSERT_EQ(blocks.back()->size(), bytes);
      EXPECT_EQ(blocks.back()->address() % 64, 0u);
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::memset(blocks[i]->mutable_data(), static_cast<int>(i),
                static_cast<size_t>(blocks[i]->size()));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint8_t* first = blocks[i]->data();
    EXPECT_EQ(std::count(first, first + blocks[i]->size(), static_cast<uint8_t>(i)),
              blocks[i]->size());
  }
}

TEST(SlabMemoryTest, TooMuchIsAnError) {
  try {
    SlabMemory().take(int64_t{1} << 60, "keeping rows");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("keeping rows: no memory for 1152921504606846976"));
  }
}

}  // namespace
}  // namespace manta::data
