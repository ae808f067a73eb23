#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "manta/base/json_input_internal.h"
#include "manta/preprocess/category_counts_internal.h"

namespace manta::preprocess {

/// The categories of a column, each with its code: its place among them. The object never changes.
class Categories {
 public:
  static constexpr int32_t kUnseen = -1;
  static constexpr int32_t kMissing = -2;  ///< Null, NaN, or a list with one of them in it.

  /// Throws Error(kInvalidArgument) if a value is not of the kind, or is there twice.
  Categories(CategoryType type, std::vector<Json> values);

  size_t size() const { return values_.size(); }
  const CategoryType& type() const { return type_; }
  CategoryKind kind() const { return type_.kind; }
  const std::vector<Json>& values() const { return values_; }

  /// The code of each row. Throws Error(kInvalidArgument), which begins with `who` and names the
  /// column, if its values can never be among these.
  std::vector<int32_t> codes(const std::shared_ptr<arrow::Array>& column, const std::string& name,
                             const std::string& who) const;
  /// Throws as `codes` does, for a column that is a list or an element.
  void require_type(const CategoryType& type, const std::string& name,
                    const std::string& who) const;
  /// The codes of values from `begin` to `end` of an array without encodings that is no list.
  void codes_of(const arrow::Array& values, int64_t begin, int64_t end, int32_t* codes) const;

  /// The values in order of their codes, for kinds other than kList. Made once.
  const std::shared_ptr<arrow::Array>& array() const;

  /// {"type": "int64", "values": [1, 2]}.
  Json to_json() const;
  static std::shared_ptr<const Categories> read(const JsonFields& fields);

 private:
  struct Coding;
  struct TimeCoding;
  void add(const Json& value, int32_t code);
  void make_dense();
  std::shared_ptr<arrow::Array> make_array() const;

  CategoryType type_;
  std::vector<Json> values_;
  IntegerTable integers_;
  std::vector<int32_t> integer_codes_;
  int64_t dense_first_ = 0;
  std::vector<int32_t> dense_;  // codes of the integers from dense_first_ on, if they lie close
  std::unordered_map<uint64_t, int32_t> huge_;
  std::unordered_map<double, int32_t> fractions_;
  TextTable texts_;  // its numbers are the codes
  std::map<Json, int32_t> lists_;
  mutable std::once_flag array_once_;
  mutable std::shared_ptr<arrow::Array> array_;
};

using CategoriesPtr = std::shared_ptr<const Categories>;

/// The categories that a pass has counted: all values, or the most frequent ones. Nulls are an
/// error unless `nulls_allowed`; a column without values is always an error.
CategoriesPtr learn_categories(const CategoryCounts& counts, const std::string& column,
                               const std::string& who, bool nulls_allowed,
                               std::optional<size_t> most = std::nullopt);

/// Categories by column: "categories" of a state, nothing before fit.
void write_categories(const std::vector<CategoriesPtr>& categories, Json& state);
std::vector<CategoriesPtr> read_categories(const JsonFields& fields, size_t columns);

/// Throws Error(kInvalidArgument) if one of the codes is kMissing.
void require_no_missing(const std::vector<int32_t>& codes, const std::string& column,
                        const std::string& who);
/// Throws unless the columns are there and can be categories.
void check_category_columns(const internal::Columns& columns, const arrow::Schema& schema);

/// The codes as int64; null for unseen values.
std::shared_ptr<arrow::Array> codes_as_integers(const std::vector<int32_t>& codes);
/// Values of codes, taken from an array of them; null for codes that are null or out of range.
std::shared_ptr<arrow::Array> values_of_codes(const arrow::Array& codes,
                                              const Categories& categories,
                                              const std::string& column, const std::string& who);

}  // namespace manta::preprocess
