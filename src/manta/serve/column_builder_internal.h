#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "manta/serve/request.h"

namespace manta::serve {

/// The values of one column while a JSON text is read. Each `add` returns why the value does not
/// fit; null if it fits. `clear` keeps the memory: a replica reads the same columns again and
/// again.
class ColumnBuilder {
 public:
  const char* add_null();
  const char* add_bool(bool value);
  const char* add_string(std::string_view value);
  /// The text of a JSON number.
  const char* add_number(std::string_view text);

  int64_t size() const { return size_; }
  std::shared_ptr<arrow::DataType> type() const;
  bool has_type_of(const ColumnBuilder& other) const { return type_kind() == other.type_kind(); }
  /// Adds all values of another builder of the same type.
  void append(const ColumnBuilder& other);
  void clear();
  /// Bytes that `finish` needs for numbers.
  int64_t number_bytes() const;
  /// Puts numbers into `numbers` at `offset`: one piece of memory for all columns, because most
  /// requests have one row.
  std::shared_ptr<arrow::ArrayData> finish(const std::shared_ptr<arrow::Buffer>& numbers,
                                           int64_t offset);

 private:
  enum class Kind : uint8_t { kUnknown, kInt, kDouble, kBool, kString };
  Kind type_kind() const { return kind_ == Kind::kUnknown ? Kind::kDouble : kind_; }
  bool become(Kind kind);
  const char* become_double();
  void push(uint64_t bits);

  Kind kind_ = Kind::kUnknown;
  int64_t size_ = 0, nulls_ = 0;
  std::vector<uint64_t> bits_;  // for kInt, kDouble and kBool: one for each value
  std::vector<int32_t> ends_;   // for kString
  std::string chars_;
  std::vector<bool> missing_;  // empty while there are no nulls
};

/// The columns of a table in the order in which their names came.
class TableBuilder {
 public:
  /// The column of that name; -1 if there is none.
  int find(std::string_view name);
  /// Adds a column; -1 if there is one of that name.
  int add(std::string_view name);
  ColumnBuilder& column(int index) { return columns_[static_cast<size_t>(index)]; }
  const std::string& name(int index) const { return names_[static_cast<size_t>(index)]; }
  int size() const { return size_; }
  int64_t rows() const { return size_ == 0 ? 0 : columns_[0].size(); }
  /// Whether it has the same names and types, in the same order.
  bool is_like(const TableBuilder& other) const;
  /// Adds all rows of another table for which `is_like` is true.
  void append(const TableBuilder& other);
  /// Removes the columns, but keeps their memory.
  void clear();
  /// All columns must have as many values.
  Batch finish();

 private:
  static constexpr int kSearched = 32;  // if there are more names, they are looked up by their
                                        // hashes

  // Names beyond `size_` belong to an earlier table.
  std::vector<std::string> names_;
  std::vector<ColumnBuilder> columns_;
  int size_ = 0;
  int repeats_ = 0;  // how many names equal those of the earlier table, which had each only once
  int earlier_ = 0;  // names of the earlier table
  std::unordered_map<std::string, int> index_;  // of the first `indexed_` names
  int indexed_ = 0;
};

}  // namespace manta::serve
