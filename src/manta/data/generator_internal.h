#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "manta/base/error_internal.h"

namespace manta::data {

/// The purpose of random numbers. It is a part of their key, so that different purposes get
/// different numbers from equal seeds.
enum RandomPurpose : uint64_t {
  kFragmentOrder = 1,
  kRowOrder = 2,
  kSplitRows = 3,
  kShuffleKeys = 4,
  kBlockOrder = 5,
  kStrata = 6,
  kSampleRows = 7,
};

/// Random numbers that are a function of (key, counter): number i of a key is mix(key + (i + 1) *
/// 0x9e3779b97f4a7c15), where mix is SplitMix64's finaliser. Old seeds must give the same orders of
/// rows for ever, so this never changes.
class Generator {
 public:
  /// The parts, such as (seed, epoch, window), are mixed one after the other into one key.
  explicit Generator(std::initializer_list<uint64_t> key) {
    for (uint64_t part : key) key_ = mix(key_ + kStep + mix(part));
  }

  uint64_t next() { return mix(key_ + ++counter_ * kStep); }
  /// As if `next` had been called `numbers` times.
  void skip(uint64_t numbers) { counter_ += numbers; }

  /// From [0, n), each equally likely (Lemire's multiplication with rejection). `n` is not 0.
  uint64_t below(uint64_t n) {
    auto product = static_cast<unsigned __int128>(next()) * n;
    if (static_cast<uint64_t>(product) < n) {
      uint64_t threshold = (0 - n) % n;
      while (static_cast<uint64_t>(product) < threshold) {
        product = static_cast<unsigned __int128>(next()) * n;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

  /// All of [0, n), n below 2^32, in an order drawn by Fisher and Yates' method.
  std::vector<uint32_t> permutation(int64_t n) {
    MANTA_CHECK(n >= 0 && n < int64_t{1} << 32, "a permutation of more than 2^32 rows");
    std::vector<uint32_t> order(static_cast<size_t>(n));
    permutation(order);
    return order;
  }
  /// The same, in the given memory, for as many numbers as it holds.
  void permutation(std::span<uint32_t> order) {
    std::iota(order.begin(), order.end(), uint32_t{0});
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[below(i + 1)]);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t key_ = 0;
  uint64_t counter_ = 0;
};

}  // namespace manta::data
