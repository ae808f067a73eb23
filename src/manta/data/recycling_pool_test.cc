#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "manta/data/recycling_pool_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr int64_t kAlignment = 64;

uint8_t* allocate(RecyclingPool& pool, int64_t size) {
  uint8_t* block = nullptr;
  EXPECT_TRUE(pool.Allocate(size, kAlignment, &block).ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0u);
  return block;
}

TEST(RecyclingPoolTest, AFreedBlockIsGivenOutAgain) {
  RecyclingPool pool(kMiB, arrow::default_memory_pool());
  uint8_t* block = allocate(pool, 256 * kKiB);
  std::thread([&] { pool.Free(block, 256 * kKiB, kAlignment); }).join();
  EXPECT_EQ(pool.unused_bytes(), 256 * kKiB);
  EXPECT_EQ(allocate(pool, 250 * kKiB), block);  // of the same class
  EXPECT_EQ(pool.unused_bytes(), 0);
  EXPECT_EQ(pool.bytes_allocated(), 250 * kKiB);
  pool.Free(block, 250 * kKiB, kAlignment);
  uint8_t* other = allocate(pool, 200 * kKiB);
  EXPECT_NE(other, block);
  pool.Free(other, 200 * kKiB, kAlignment);
  EXPECT_EQ(pool.bytes_allocated(), 0);
}

TEST(RecyclingPoolTest, HoldsOnlySoMuchAndNoneOfOtherSizes) {
  RecyclingPool pool(512 * kKiB, arrow::default_memory_pool());
  for (int64_t size : {int64_t{0}, kKiB, 32 * kKiB - 1, 8 * kMiB + 1, 20 * kMiB}) {
    pool.Free(allocate(pool, size), size, kAlignment);
    EXPECT_EQ(pool.unused_bytes(), 0) << size;
  }
  std::vector<uint8_t*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(allocate(pool, 128 * kKiB));
  for (uint8_t* block : blocks) pool.Free(block, 128 * kKiB, kAlignment);
  EXPECT_EQ(pool.unused_bytes(), 512 * kKiB);
  pool.ReleaseUnused();
  EXPECT_EQ(pool.unused_bytes(), 0);
}

// Blocks of all sizes, resized and freed by several threads: what is in them stays, and all of what
// was taken from the pool below comes back there.
TEST(RecyclingPoolTest, BytesStayWhateverIsDone) {
  arrow::ProxyMemoryPool below(arrow::default_memory_pool());
  {
    RecyclingPool pool(2 * kMiB, &below);
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&pool, seed] {
        std::mt19937_64 random(seed);
        auto any_size = [&] {
          return std::uniform_int_distribution<int64_t>(1, 8)(random) *
                 (int64_t{1} << std::uniform_int_distribution<int>(8, 20)(random)) / 8;
        };
        struct Held {
          uint8_t* block;
          int64_t size;
          uint8_t value;
        };
        std::vector<Held> all;
        auto check = [](const Held& held, int64_t size) {
          for (int64_t at : {int64_t{0}, size / 2, size - 1}) EXPECT_EQ(held.block[at], held.value);
        };
        for (int step = 0; step < 2000; ++step) {
          if (all.size() < 5) {
            Held held{nullptr, any_size(), static_cast<uint8_t>(random())};
            ASSERT_TRUE(pool.Allocate(held.size, kAlignment, &held.block).ok());
            std::memset(held.block, held.value, static_cast<size_t>(held.size));
            all.push_back(held);
            continue;
          }
          Held& held = all[random() % all.size()];
          check(held, held.size);
          if (random() % 2 == 0) {
            int64_t size = any_size();
            ASSERT_TRUE(pool.Reallocate(held.size, size, kAlignment, &held.block).ok());
            check(held, std::min(size, held.size));
            held.size = size;
            std::memset(held.block, held.value, static_cast<size_t>(size));
          } else {
            pool.Free(held.block, held.size, kAlignment);
            held = all.back();
            all.pop_back();
          }
        }
        for (const Held& held : all) pool.Free(held.block, held.size, kAlignment);
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(pool.bytes_allocated(), 0);
  }
  EXPECT_EQ(below.bytes_allocated(), 0);
}

}  // namespace
}  // namespace manta::data
