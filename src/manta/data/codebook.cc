#include <arrow/api.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "manta/data/codebook_internal.h"

namespace manta::data {
namespace {

// The high bits of a double differ where the low ones do not: both decide.
uint64_t mixed_bits(uint64_t bits) {
  bits ^= bits >> 32;
  bits *= 0x9e3779b97f4a7c15;
  return bits ^ (bits >> 32);
}

uint64_t hash_of(const uint8_t* value, int64_t width) {
  uint64_t hash = 0;
  for (int64_t at = 0; at < width; at += 8) {
    uint64_t bits = 0;
    std::memcpy(&bits, value + at, static_cast<size_t>(std::min<int64_t>(width - at, 8)));
    hash = mixed_bits(hash ^ bits);
  }
  return hash;
}

bool is_text(const arrow::DataType& type) { return arrow::is_base_binary_like(type.id()); }

std::string_view text_at(const arrow::Array& texts, int64_t i) {
  return arrow::is_large_binary_like(texts.type_id())
             ? static_cast<const arrow::LargeBinaryArray&>(texts).GetView(i)
             : static_cast<const arrow::BinaryArray&>(texts).GetView(i);
}

}  // namespace

Codebook::Codebook(const arrow::DataType& type)
    : width_(is_text(type) ? static_cast<int64_t>(sizeof(TextSlot)) : type.byte_width()),
      is_text_(is_text(type)),
      values_(static_cast<size_t>(width_)),
      hashes_(1) {
  grow();
}

const std::vector<uint16_t>* Codebook::codes_of(const std::shared_ptr<arrow::Array>& dictionary) {
  if (is_last(*dictionary)) return &codes_;
  last_ = nullptr;
  codes_.resize(static_cast<size_t>(dictionary->length()));
  const uint8_t* values =
      is_text_ ? nullptr : dictionary->data()->buffers[1]->data() + dictionary->offset() * width_;
  const bool has_nulls = dictionary->null_count() > 0;
  for (int64_t i = 0; i < dictionary->length(); ++i) {
    uint16_t code = kNull;
    if (!has_nulls || dictionary->IsValid(i)) {
      if (count_ == kMost) return nullptr;
      code =
          is_text_ ? code_of(nullptr, text_at(*dictionary, i)) : code_of(values + i * width_, {});
    }
    codes_[static_cast<size_t>(i)] = code;
  }
  last_ = dictionary;
  return &codes_;
}

// Another array may have the same values, as a column seen as another type has.
bool Codebook::is_last(const arrow::Array& dictionary) const {
  return last_ && last_->length() == dictionary.length() &&
         last_->offset() == dictionary.offset() &&
         last_->data()->buffers == dictionary.data()->buffers;
}

uint16_t Codebook::code_of(const uint8_t* value, std::string_view text) {
  uint64_t hash = is_text_ ? std::hash<std::string_view>()(text) : hash_of(value, width_);
  size_t mask = table_.size() - 1, at = hash & mask;
  for (; table_[at] != kNull; at = (at + 1) & mask) {
    if (hashes_[table_[at]] == hash && is_equal(table_[at], value, text)) return table_[at];
  }
  auto code = static_cast<uint16_t>(count_++);
  table_[at] = code;
  hashes_.push_back(hash);
  TextSlot slot{};
  if (is_text_) {
    auto bytes = static_cast<int64_t>(text.size());
    if (bytes > TextSlot::kInPlace) {
      text = texts_.emplace_back(text);
      text_bytes_ += bytes;
    }
    most_text_bytes_ = std::max(most_text_bytes_, bytes);
    slot = TextSlot::of(text);
    value = reinterpret_cast<const uint8_t*>(&slot);
  }
  values_.insert(values_.end(), value, value + width_);
  if (2 * count_ > table_.size()) grow();
  return code;
}

bool Codebook::is_equal(uint16_t code, const uint8_t* value, std::string_view text) const {
  const uint8_t* known = values_.data() + code * width_;
  if (width_ == 8) return std::memcmp(known, value, 8) == 0;  // the usual one, without a call
  if (!is_text_) return std::memcmp(known, value, static_cast<size_t>(width_)) == 0;
  TextSlot slot{};
  std::memcpy(&slot, known, sizeof(slot));
  return std::string_view(slot.data(), static_cast<size_t>(slot.length)) == text;
}

void Codebook::grow() {
  table_.assign(std::max<size_t>(64, 2 * table_.size()), kNull);
  const size_t mask = table_.size() - 1;
  for (size_t code = 1; code < count_; ++code) {
    size_t at = hashes_[code] & mask;
    while (table_[at] != kNull) at = (at + 1) & mask;
    table_[at] = static_cast<uint16_t>(code);
  }
}

void Codebook::close() {
  last_ = nullptr;
  hashes_ = std::vector<uint64_t>();  // = {} would keep its memory
  table_ = std::vector<uint16_t>();
  codes_ = std::vector<uint16_t>();
}

int64_t Codebook::bytes() const {
  constexpr size_t kOfText = sizeof(std::string) + 16;
  return text_bytes_ +
         static_cast<int64_t>(values_.capacity() + hashes_.capacity() * sizeof(uint64_t) +
                              (table_.capacity() + codes_.capacity()) * sizeof(uint16_t) +
                              texts_.size() * kOfText);
}

}  // namespace manta::data
