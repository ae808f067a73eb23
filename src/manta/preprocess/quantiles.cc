#include <arrow/api.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "manta/preprocess/quantiles_internal.h"

namespace manta::preprocess {
namespace {

constexpr int kLevelBits = 16;
constexpr int kLevels = 4;
constexpr uint64_t kSign = uint64_t{1} << 63;

// Unsigned integers in the order of the numbers.
uint64_t key_of(double x) {
  auto bits = std::bit_cast<uint64_t>(x + 0.0);  // 0, not -0
  return bits & kSign ? ~bits : bits | kSign;
}

double number_of(uint64_t key) { return std::bit_cast<double>(key & kSign ? key & ~kSign : ~key); }

uint64_t prefix_of(uint64_t key, int level) {
  return level == 0 ? 0 : key >> (64 - kLevelBits * level);
}

size_t bucket_of(uint64_t key, int level) {
  return (key >> (64 - kLevelBits * (level + 1))) & ((1 << kLevelBits) - 1);
}

// Interpolates as numpy does, to the bit, between finite numbers.
double between(double a, double b, double share) {
  if (a == b || share == 0) return a;
  double difference = b - a;
  return share < 0.5 ? a + difference * share : b - difference * (1 - share);
}

}  // namespace

RoomForValues room_for_values(int64_t values) {
  return std::make_shared<std::atomic<int64_t>>(values);
}

void QuantileSearch::start_ranks(int64_t count) {
  count_ = count;
  targets_.clear();
  auto last = static_cast<uint64_t>(count - 1);
  for (double quantile : quantiles_) {
    auto below = static_cast<uint64_t>(static_cast<double>(last) * quantile);
    targets_.push_back({std::min(below, last), 0});
    targets_.push_back({std::min(below + 1, last), 0});
  }
}

void QuantileSearch::set_found(const std::vector<uint64_t>& keys) {
  for (size_t i = 0; i < quantiles_.size(); ++i) {
    double place = static_cast<double>(count_ - 1) * quantiles_[i];
    found_.push_back(
        between(number_of(keys[2 * i]), number_of(keys[2 * i + 1]), place - std::floor(place)));
  }
}

void QuantileTally::add(const arrow::DoubleArray& values) {
  bool first = search_->level_ == 0;
  if (first && !counting_ && room_->fetch_sub(values.length()) < values.length()) count_kept();
  for (int64_t i = 0; i < values.length(); ++i) {
    if (values.IsNull(i) || std::isnan(values.Value(i))) continue;
    ++count_;
    uint64_t key = key_of(values.Value(i));
    if (first && !counting_) {
      kept_.push_back(key);
    } else {
      count_key(key);
    }
  }
}

void QuantileTally::count_key(uint64_t key) {
  int level = search_->level_;
  uint64_t prefix = prefix_of(key, level);
  if (level > 0 && std::none_of(search_->targets_.begin(), search_->targets_.end(),
                                [&](const auto& target) { return target.prefix == prefix; })) {
    return;
  }
  auto& histogram = histograms_[prefix];
  if (histogram.empty()) histogram.resize(size_t{1} << kLevelBits);
  ++histogram[bucket_of(key, level)];
}

void QuantileTally::count_kept() {
  counting_ = true;
  for (uint64_t key : kept_) count_key(key);
  kept_ = {};
}

void QuantileTally::merge(QuantileTally& more) {
  count_ += more.count_;
  if (counting_ != more.counting_) (counting_ ? more : *this).count_kept();
  kept_.insert(kept_.end(), more.kept_.begin(), more.kept_.end());
  for (auto& [prefix, counts] : more.histograms_) {
    auto& all = histograms_[prefix];
    if (all.empty()) all.resize(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) all[i] += counts[i];
  }
}

void QuantileTally::finish(QuantileSearch& search) {
  if (search.level_ == 0) search.start_ranks(count_);
  std::vector<uint64_t> keys;
  if (search.level_ == 0 && !counting_) {
    for (auto& target : search.targets_) {
      auto place = kept_.begin() + static_cast<int64_t>(target.rank);
      std::nth_element(kept_.begin(), place, kept_.end());
      keys.push_back(*place);
    }
    return search.set_found(keys);
  }
  for (auto& target : search.targets_) {
    const Histogram& histogram = histograms_[target.prefix];
    uint64_t bucket = 0;
    while (target.rank >= static_cast<uint64_t>(histogram[bucket])) {
      target.rank -= static_cast<uint64_t>(histogram[bucket++]);
    }
    target.prefix = (target.prefix << kLevelBits) | bucket;
    keys.push_back(target.prefix);
  }
  if (++search.level_ == kLevels) search.set_found(keys);
}

}  // namespace manta::preprocess
