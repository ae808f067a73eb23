#include <arrow/api.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "manta/io/arrow_status_internal.h"
#include "manta/serve/column_builder_internal.h"

namespace manta::serve {
namespace {

constexpr const char* kMixed = "its column has values of another type";
constexpr const char* kInexact =
    "a whole number beyond 2^53 in a column with fractions cannot be held exactly";

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
uint64_t bits_of(int64_t value) { return static_cast<uint64_t>(value); }

bool is_exact(int64_t value) {
  constexpr int64_t kLimit = int64_t{1} << 53;
  return value >= -kLimit && value <= kLimit;
}

// Copied: the vector's memory is not Arrow's.
std::shared_ptr<arrow::Buffer> copy_of(const void* data, size_t size) {
  auto buffer =
      check(arrow::AllocateBuffer(static_cast<int64_t>(size)), "allocating a column of a request");
  if (size > 0) std::memcpy(buffer->mutable_data(), data, size);
  return buffer;
}

std::shared_ptr<arrow::Buffer> bitmap(size_t size, const auto& is_set) {
  auto buffer = check(arrow::AllocateEmptyBitmap(static_cast<int64_t>(size)),
                      "allocating a column of a request");
  for (size_t i = 0; i < size; ++i) {
    if (is_set(i)) buffer->mutable_data()[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
  }
  return buffer;
}

// A replica gets the same columns in most requests: then it also gets the same schema, which need
// not be built again, and by whose address requests are told to be alike.
std::shared_ptr<arrow::Schema> schema_of(
    const std::vector<std::string>& names,
    const std::vector<std::shared_ptr<arrow::DataType>>& types) {
  thread_local std::shared_ptr<arrow::Schema> last;
  auto is_last = [&] {
    if (!last || last->num_fields() != static_cast<int>(names.size())) return false;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto& field = *last->field(static_cast<int>(i));
      if (field.type() != types[i] || field.name() != names[i]) return false;
    }
    return true;
  };
  if (is_last()) return last;
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (size_t i = 0; i < names.size(); ++i) fields.push_back(arrow::field(names[i], types[i]));
  return last = arrow::schema(std::move(fields));
}

}  // namespace

bool ColumnBuilder::become(Kind kind) {
  if (kind_ == kind) return true;
  if (kind_ != Kind::kUnknown) return false;
  kind_ = kind;
  if (kind == Kind::kString) {
    ends_.assign(static_cast<size_t>(size_), 0);
  } else {
    bits_.assign(static_cast<size_t>(size_), 0);
  }
  return true;
}

void ColumnBuilder::push(uint64_t bits) {
  bits_.push_back(bits);
  if (nulls_ > 0) missing_.push_back(false);
  ++size_;
}

const char* ColumnBuilder::add_null() {
  if (nulls_++ == 0) missing_.assign(static_cast<size_t>(size_), false);
  missing_.push_back(true);
  if (kind_ == Kind::kString) {
    ends_.push_back(static_cast<int32_t>(chars_.size()));
  } else if (kind_ != Kind::kUnknown) {
    bits_.push_back(0);
  }
  ++size_;
  return nullptr;
}

const char* ColumnBuilder::add_bool(bool value) {
  if (!become(Kind::kBool)) return kMixed;
  push(value ? 1 : 0);
  return nullptr;
}

const char* ColumnBuilder::add_string(std::string_view value) {
  if (!become(Kind::kString)) return kMixed;
  chars_ += value;
  ends_.push_back(static_cast<int32_t>(chars_.size()));
  if (nulls_ > 0) missing_.push_back(false);
  ++size_;
  return nullptr;
}

const char* ColumnBuilder::become_double() {
  if (kind_ == Kind::kInt) {
    for (uint64_t& bits : bits_) {
      auto value = static_cast<int64_t>(bits);
      if (!is_exact(value)) return kInexact;
      bits = bits_of(static_cast<double>(value));
    }
    kind_ = Kind::kDouble;
  }
  return become(Kind::kDouble) ? nullptr : kMixed;
}

const char* ColumnBuilder::add_number(std::string_view text) {
  const char *begin = text.data(), *end = begin + text.size();
  if (text.find_first_of(".eE") == std::string_view::npos && text != "-0") {
    int64_t value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) {
      return "a whole number beyond 64 bits cannot be held exactly; send it as a string, or with "
             "an "
             "exponent if a nearby number will do";
    }
    if (kind_ == Kind::kDouble) {
      if (!is_exact(value)) return kInexact;
      push(bits_of(static_cast<double>(value)));
      return nullptr;
    }
    if (!become(Kind::kInt)) return kMixed;
    push(bits_of(value));
    return nullptr;
  }
  double value = 0;
  if (std::from_chars(begin, end, value).ec == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);  // tells too large from too small
    if (std::isinf(value)) return "a number beyond the range of float64";
  }
  if (const char* why = become_double()) return why;
  push(bits_of(value));
  return nullptr;
}

std::shared_ptr<arrow::DataType> ColumnBuilder::type() const {
  switch (kind_) {
    case Kind::kInt:
      return arrow::int64();
    case Kind::kBool:
      return arrow::boolean();
    case Kind::kString:
      return arrow::utf8();
    case Kind::kDouble:
    case Kind::kUnknown:
      break;
  }
  return arrow::float64();
}

std::shared_ptr<arrow::Array> ColumnBuilder::finish() {
  if (kind_ == Kind::kUnknown) become(Kind::kDouble);
  auto size = static_cast<size_t>(size_);
  std::shared_ptr<arrow::Buffer> valid;
  if (nulls_ > 0) valid = bitmap(size, [&](size_t i) { return !missing_[i]; });
  std::vector<std::shared_ptr<arrow::Buffer>> buffers{valid};
  if (kind_ == Kind::kString) {
    ends_.insert(ends_.begin(), 0);
    buffers.push_back(copy_of(ends_.data(), ends_.size() * sizeof(int32_t)));
    buffers.push_back(copy_of(chars_.data(), chars_.size()));
  } else if (kind_ == Kind::kBool) {
    buffers.push_back(bitmap(size, [&](size_t i) { return bits_[i] != 0; }));
  } else {
    buffers.push_back(copy_of(bits_.data(), size * sizeof(uint64_t)));
  }
  return arrow::MakeArray(arrow::ArrayData::Make(type(), size_, std::move(buffers), nulls_));
}

int TableBuilder::find(std::string_view name) const {
  if (names_.size() <= kSearched) {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return static_cast<int>(i);
    }
    return -1;
  }
  auto found = index_.find(std::string(name));
  return found == index_.end() ? -1 : found->second;
}

int TableBuilder::add(std::string_view name) {
  names_.emplace_back(name);
  columns_.emplace_back();
  int last = size() - 1;
  if (names_.size() == kSearched + 1) {
    for (int i = 0; i <= last; ++i) index_.emplace(names_[static_cast<size_t>(i)], i);
  } else if (names_.size() > kSearched) {
    index_.emplace(names_.back(), last);
  }
  return last;
}

Batch TableBuilder::finish() {
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  std::vector<std::shared_ptr<arrow::DataType>> types;
  arrays.reserve(columns_.size());
  types.reserve(columns_.size());
  int64_t rows = columns_.empty() ? 0 : columns_[0].size();
  for (auto& column : columns_) {
    types.push_back(column.type());
    arrays.push_back(column.finish());
  }
  return arrow::RecordBatch::Make(schema_of(names_, types), rows, std::move(arrays));
}

}  // namespace manta::serve
