#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/preprocess/category_values_internal.h"
#include "manta/preprocess/columns.h"
#include "manta/preprocess/distinct_internal.h"
#include "manta/preprocess/learning.h"

namespace manta::preprocess {

/// A column may have at most this many categories, with this many bytes of text: they must fit into
/// memory, and into the JSON of a checkpoint. More is an error of `fit`.
inline constexpr size_t kMostCategories = 2'000'000;
inline constexpr size_t kMostCategoryBytes = size_t{32} << 20;

/// Whether a list is one value, or each of its elements is.
enum class Lists { kWhole, kElements };

/// How often each value of a column came. Numbers of any type are compared by value.
class CategoryCounts {
 public:
  CategoryCounts(std::string who, std::string column, Lists lists);

  /// Throws Error(kInvalidArgument) for a type that cannot be categories, for numbers and texts in
  /// one column, and for too many values.
  void add(const std::shared_ptr<arrow::Array>& column);
  void merge(CategoryCounts& more);

  const CategoryType& type() const { return type_; }
  int64_t nulls() const { return nulls_; }  ///< Also NaN, and lists with null or NaN.
  size_t size() const;

  /// Values as JSON, each with its count, in order: by number, by time, by bytes of text,
  /// by elements.
  std::vector<std::pair<Json, int64_t>> sorted() const;

 private:
  struct Counting;
  void add_values(const arrow::Array& values, int64_t begin, int64_t end);
  void set_type(const CategoryType& type);
  void require_few() const;

  std::string who_, column_;
  Lists lists_;
  CategoryType type_;
  int64_t nulls_ = 0;
  std::vector<int64_t> small_;  // counts of 0, 1, 2, ...: most integer categories are small
  IntegerTable integers_;
  std::vector<int64_t> integer_counts_;
  std::map<uint64_t, int64_t> huge_;
  std::map<double, int64_t> fractions_;
  TextTable texts_;
  std::vector<int64_t> text_counts_;
  std::map<Json, int64_t> whole_lists_;
};

/// The most frequent ones, at most `most`; of equally frequent ones the first in order.
std::vector<Json> most_frequent(std::vector<std::pair<Json, int64_t>> sorted, size_t most);

/// The values of several columns.
class CategoryTally final : public Tally {
 public:
  CategoryTally(const internal::Columns& columns, Lists lists);
  void add(const data::BatchPtr& batch) override;
  void merge(Tally& more) override;
  std::vector<CategoryCounts>& parts() { return parts_; }

 private:
  const internal::Columns& columns_;
  std::vector<CategoryCounts> parts_;
};

}  // namespace manta::preprocess
