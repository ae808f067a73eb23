#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace manta::preprocess {

/// Distinct texts, numbered from 0 in the order in which they came.
class TextTable {
 public:
  /// The text's number, or -1.
  int64_t find(std::string_view text) const;
  /// The text's number; a new number if the text is new.
  int64_t insert(std::string_view text);
  size_t size() const { return texts_.size(); }
  const std::string& operator[](size_t number) const { return texts_[number]; }
  size_t bytes() const { return bytes_; }  ///< Of all texts.

 private:
  struct Slot {
    uint64_t hash = 0;
    int64_t number = -1;
  };
  size_t place_of(std::string_view text, uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::deque<std::string> texts_;
  size_t bytes_ = 0;
};

/// The same for integers.
class IntegerTable {
 public:
  int64_t find(int64_t value) const;
  int64_t insert(int64_t value);
  size_t size() const { return values_.size(); }
  int64_t operator[](size_t number) const { return values_[number]; }

 private:
  size_t place_of(int64_t value) const;
  void grow();

  std::vector<int64_t> slots_;  // numbers, or -1; a power of two, at most half full
  std::vector<int64_t> values_;
};

}  // namespace manta::preprocess
