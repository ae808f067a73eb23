#include <arrow/util/hashing.h>

#include "manta/preprocess/distinct_internal.h"

namespace manta::preprocess {
namespace {

constexpr size_t kFirstSlots = 64;

uint64_t hash_of(std::string_view text) {
  return arrow::internal::ComputeStringHash<0>(text.data(), static_cast<int64_t>(text.size()));
}

uint64_t hash_of(int64_t value) {  // the end of splitmix64
  auto x = static_cast<uint64_t>(value);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

size_t TextTable::place_of(std::string_view text, uint64_t hash) const {
  size_t mask = slots_.size() - 1;
  for (size_t place = hash & mask;; place = (place + 1) & mask) {
    const Slot& slot = slots_[place];
    if (slot.number < 0) return place;
    if (slot.hash == hash && texts_[static_cast<size_t>(slot.number)] == text) return place;
  }
}

int64_t TextTable::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  return slots_[place_of(text, hash_of(text))].number;
}

int64_t TextTable::insert(std::string_view text) {
  if (2 * (texts_.size() + 1) > slots_.size()) grow();
  uint64_t hash = hash_of(text);
  Slot& slot = slots_[place_of(text, hash)];
  if (slot.number < 0) {
    slot = {hash, static_cast<int64_t>(texts_.size())};
    texts_.emplace_back(text);
    bytes_ += text.size();
  }
  return slot.number;
}

void TextTable::grow() {
  auto before = std::move(slots_);
  slots_.assign(before.empty() ? kFirstSlots : before.size() * 2, {});
  size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.number < 0) continue;
    size_t place = slot.hash & mask;
    while (slots_[place].number >= 0) place = (place + 1) & mask;
    slots_[place] = slot;
  }
}

size_t IntegerTable::place_of(int64_t value) const {
  size_t mask = slots_.size() - 1;
  size_t place = hash_of(value) & mask;
  while (slots_[place] >= 0 && values_[static_cast<size_t>(slots_[place])] != value) {
    place = (place + 1) & mask;
  }
  return place;
}

int64_t IntegerTable::find(int64_t value) const {
  return slots_.empty() ? -1 : slots_[place_of(value)];
}

int64_t IntegerTable::insert(int64_t value) {
  if (2 * (values_.size() + 1) > slots_.size()) grow();
  int64_t& number = slots_[place_of(value)];
  if (number < 0) {
    number = static_cast<int64_t>(values_.size());
    values_.push_back(value);
  }
  return number;
}

void IntegerTable::grow() {
  slots_.assign(slots_.empty() ? kFirstSlots : slots_.size() * 2, -1);
  for (size_t i = 0; i < values_.size(); ++i) {
    slots_[place_of(values_[i])] = static_cast<int64_t>(i);
  }
}

}  // namespace manta::preprocess
