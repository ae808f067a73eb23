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
/// fit; null if it does.
class ColumnBuilder {
 public:
  const char* add_null();
  const char* add_bool(bool value);
  const char* add_string(std::string_view value);
  /// The text of a JSON number.
  const char* add_number(std::string_view text);

  int64_t size() const { return size_; }
  std::shared_ptr<arrow::DataType> type() const;
  std::shared_ptr<arrow::Array> finish();

 private:
  enum class Kind : uint8_t { kUnknown, kInt, kDouble, kBool, kString };
  bool become(Kind kind);
  const char* become_double();
  void push(uint64_t bits);

  Kind kind_ = Kind::kUnknown;
  int64_t size_ = 0, nulls_ = 0;
  std::vector<uint64_t> bits_;  // of kInt, kDouble and kBool: one for each value
  std::vector<int32_t> ends_;   // of kString
  std::string chars_;
  std::vector<bool> missing_;  // empty while there are no nulls
};

/// The columns of a table in the order in which their names came.
class TableBuilder {
 public:
  /// The column of that name; -1 if there is none.
  int find(std::string_view name) const;
  int add(std::string_view name);
  ColumnBuilder& column(int index) { return columns_[static_cast<size_t>(index)]; }
  const std::string& name(int index) const { return names_[static_cast<size_t>(index)]; }
  int size() const { return static_cast<int>(columns_.size()); }
  /// All columns must have as many values.
  Batch finish();

 private:
  static constexpr size_t kSearched = 32;  // more names than that are looked up by their hashes

  std::vector<std::string> names_;
  std::vector<ColumnBuilder> columns_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace manta::serve
