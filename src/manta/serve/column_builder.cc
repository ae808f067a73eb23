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

// Copies the data: the vector's memory is not Arrow's.
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

// A replica gets the same columns in most requests. Then this returns the same schema, which need
// not be built again; its address shows that requests are alike.
std::shared_ptr<arrow::Schema> schema_of(
    const std::vector<std::string>& names,
    const std::vector<std::shared_ptr<arrow::ArrayData>>& columns) {
  thread_local std::shared_ptr<arrow::Schema> last;
  auto is_last = [&] {
    if (!last || last->num_fields() != static_cast<int>(columns.size())) return false;
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto& field = *last->field(static_cast<int>(i));
      if (field.type() != columns[i]->type || field.name() != names[i]) return false;
    }
    return true;
  };
  if (is_last()) return last;
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (size_t i = 0; i < columns.size(); ++i)
    fields.push_back(arrow::field(names[i], columns[i]->type));
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

int64_t ColumnBuilder::number_bytes() const {
  bool numbers = type_kind() == Kind::kInt || type_kind() == Kind::kDouble;
  return numbers ? size_ * static_cast<int64_t>(sizeof(uint64_t)) : 0;
}

std::shared_ptr<arrow::ArrayData> ColumnBuilder::finish(
    const std::shared_ptr<arrow::Buffer>& numbers, int64_t offset) {
  if (kind_ == Kind::kUnknown) become(Kind::kDouble);
  auto size = static_cast<size_t>(size_);
  if (number_bytes() > 0) {
    std::memcpy(numbers->mutable_data() + offset, bits_.data(), size * sizeof(uint64_t));
    if (nulls_ == 0) {  // the usual case, without memory of its own
      std::vector<std::shared_ptr<arrow::Buffer>> buffers(2);
      buffers[1] = numbers;
      return std::make_shared<arrow::ArrayData>(type(), size_, std::move(buffers), /*null_count=*/0,
                                                offset / static_cast<int64_t>(sizeof(uint64_t)));
    }
  }
  std::shared_ptr<arrow::Buffer> valid;
  if (nulls_ > 0) valid = bitmap(size, [&](size_t i) { return !missing_[i]; });
  std::vector<std::shared_ptr<arrow::Buffer>> buffers{valid};
  if (kind_ == Kind::kString) {
    std::vector<int32_t> offsets(1, 0);
    offsets.insert(offsets.end(), ends_.begin(), ends_.end());
    buffers.push_back(copy_of(offsets.data(), offsets.size() * sizeof(int32_t)));
    buffers.push_back(copy_of(chars_.data(), chars_.size()));
  } else if (kind_ == Kind::kBool) {
    buffers.push_back(bitmap(size, [&](size_t i) { return bits_[i] != 0; }));
  } else {
    buffers.push_back(arrow::SliceBuffer(numbers, offset, number_bytes()));
  }
  return arrow::ArrayData::Make(type(), size_, std::move(buffers), nulls_);
}

void ColumnBuilder::append(const ColumnBuilder& other) {
  if (kind_ == Kind::kUnknown) become(Kind::kDouble);
  if (nulls_ > 0 || other.nulls_ > 0) {
    if (nulls_ == 0) missing_.assign(static_cast<size_t>(size_), false);
    if (other.nulls_ == 0) {
      missing_.insert(missing_.end(), static_cast<size_t>(other.size_), false);
    } else {
      missing_.insert(missing_.end(), other.missing_.begin(), other.missing_.end());
    }
  }
  if (kind_ == Kind::kString) {
    for (int32_t end : other.ends_) ends_.push_back(static_cast<int32_t>(chars_.size()) + end);
    chars_ += other.chars_;
  } else if (other.kind_ == Kind::kUnknown) {
    bits_.insert(bits_.end(), static_cast<size_t>(other.size_), 0);
  } else {
    bits_.insert(bits_.end(), other.bits_.begin(), other.bits_.end());
  }
  size_ += other.size_;
  nulls_ += other.nulls_;
}

void ColumnBuilder::clear() {
  kind_ = Kind::kUnknown;
  size_ = nulls_ = 0;
  bits_.clear();
  ends_.clear();
  chars_.clear();
  missing_.clear();
}

int TableBuilder::find(std::string_view name) {
  if (size_ <= kSearched) {
    for (int i = 0; i < size_; ++i) {
      if (names_[static_cast<size_t>(i)] == name) return i;
    }
    return -1;
  }
  for (; indexed_ < size_; ++indexed_) {
    index_.emplace(names_[static_cast<size_t>(indexed_)], indexed_);
  }
  auto found = index_.find(std::string(name));
  return found == index_.end() ? -1 : found->second;
}

int TableBuilder::add(std::string_view name) {
  auto place = static_cast<size_t>(size_);
  if (repeats_ == size_ && size_ < earlier_ && names_[place] == name) {
    ++repeats_;  // no search: no earlier name equals this one
  } else {
    if (find(name) >= 0) return -1;
    if (place == names_.size()) {
      names_.emplace_back();
      columns_.emplace_back();
    }
    names_[place] = name;
  }
  columns_[place].clear();
  return size_++;
}

bool TableBuilder::is_like(const TableBuilder& other) const {
  if (size_ != other.size_) return false;
  for (size_t i = 0; i < static_cast<size_t>(size_); ++i) {
    if (!columns_[i].has_type_of(other.columns_[i]) || names_[i] != other.names_[i]) return false;
  }
  return true;
}

void TableBuilder::append(const TableBuilder& other) {
  for (size_t i = 0; i < static_cast<size_t>(size_); ++i) columns_[i].append(other.columns_[i]);
}

void TableBuilder::clear() {
  earlier_ = size_;
  size_ = repeats_ = indexed_ = 0;
  index_.clear();
}

Batch TableBuilder::finish() {
  auto size = static_cast<size_t>(size_);
  std::vector<std::shared_ptr<arrow::ArrayData>> arrays;
  arrays.reserve(size);
  int64_t bytes = 0;
  for (size_t i = 0; i < size; ++i) bytes += columns_[i].number_bytes();
  std::shared_ptr<arrow::Buffer> numbers =
      check(arrow::AllocateBuffer(bytes), "allocating the numbers of a request");
  int64_t offset = 0;
  for (size_t i = 0; i < size; ++i) {
    arrays.push_back(columns_[i].finish(numbers, offset));
    offset += columns_[i].number_bytes();
  }
  auto schema = schema_of(names_, arrays);
  return arrow::RecordBatch::Make(std::move(schema), rows(), std::move(arrays));
}

}  // namespace manta::serve
