#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/learning.h"

namespace manta {

namespace preprocess {
class Categories;
}

namespace internal {

/// What the encoders share: the categories of each column.
///
/// Categories are texts, integers, booleans, float32 and float64, decimals, dates, timestamps,
/// times of day and durations, also dictionary-encoded, and lists of them (whole lists not of times
/// or decimals). Their order is that of numbers, of time, or of the bytes of texts, which for UTF-8
/// is that of code points; false comes before true. Numbers of different types are compared by
/// value: a category learned from int32 matches 7.0 in a request. So are decimals among themselves,
/// and times in other units. Dates, timestamps with a zone and timestamps without one are never
/// equal. Null and NaN are errors, in `fit` and later, as in Ray. A column has at most 2,000,000
/// categories, with 32 MiB of text.
class CategoryEncoder : public LearningPreprocessor {
 public:
  bool is_fitted() const final { return !categories_.empty(); }
  void check_columns(const arrow::Schema& schema) const final;
  std::unique_ptr<Tally> start_tally() const final;
  bool finish_tally(Tally& all) final;
  std::vector<std::string> input_columns() const final { return columns_.inputs(); }
  std::vector<std::string> output_columns() const final { return columns_.outputs(); }
  std::string name() const final { return columns_.who(); }
  /// What it has learned, by column: {"unique_values(a)": ["x", "y"]}, in the order of the codes;
  /// times as integers in their unit, decimals as texts. Throws Error(kInvalidArgument) before fit.
  Json stats() const;
  Json state() const override;

 protected:
  CategoryEncoder(Columns columns, bool lists_by_element, bool nulls_allowed = false)
      : columns_(std::move(columns)), by_element_(lists_by_element), nulls_(nulls_allowed) {}
  /// Throws Error(kInvalidArgument) for columns that are not there, and numbers below 1.
  void set_most(std::map<std::string, int64_t> most);
  void read_learned(const internal::JsonFields& fields);

  Columns columns_;
  bool by_element_;
  bool nulls_;
  std::map<std::string, int64_t> most_;                                         // max_categories
  std::vector<std::shared_ptr<const preprocess::Categories>> categories_;       // by column
  std::map<std::string, std::shared_ptr<const preprocess::Categories>> given_;  // not learned
};

}  // namespace internal

struct OrdinalEncoderOptions {
  /// A column of lists: true encodes each element; false takes a whole list as one category.
  bool encode_lists = true;
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Encodes categories as integers: 0, 1, ... in their order, as int64 (a list becomes a list of
/// these). A value that it has not learned becomes null.
class OrdinalEncoder final : public internal::CategoryEncoder, public Invertible {
 public:
  explicit OrdinalEncoder(std::vector<std::string> columns,
                          const OrdinalEncoderOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  /// Codes become values again: bool, int64, uint64, float64, string, or the type of the times or
  /// decimals that it learned from. Codes without a category become null. Not for columns of lists.
  data::BatchPtr inverse_transform_batch(const data::BatchPtr& batch) const override;
  Json state() const override;
  static OrdinalEncoder from_state(const Json& state);
};

struct OneHotEncoderOptions {
  /// For some columns: keep only this many categories, the most frequent ones (of equally frequent
  /// ones the first in order).
  std::map<std::string, int64_t> max_categories = {};
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Encodes a category as a list of uint8 (fixed_size_list), one number for each category in their
/// order: 1 for its own, 0 for the others. A value that it has not learned gets zeros only. A list
/// is one category.
class OneHotEncoder final : public internal::CategoryEncoder {
 public:
  explicit OneHotEncoder(std::vector<std::string> columns,
                         const OneHotEncoderOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  static OneHotEncoder from_state(const Json& state);
};

using MultiHotEncoderOptions = OneHotEncoderOptions;

/// Encodes a list of categories as a list of int64 (fixed_size_list), one number for each category
/// in their order: how often the category is in the list. A value that it has not learned does not
/// count. A value that is not a list counts as a list of one.
class MultiHotEncoder final : public internal::CategoryEncoder {
 public:
  explicit MultiHotEncoder(std::vector<std::string> columns,
                           const MultiHotEncoderOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  static MultiHotEncoder from_state(const Json& state);
};

struct LabelEncoderOptions {
  std::string output_column = "";  ///< Empty: the column is replaced.
};

/// Encodes the labels of one column as 0, 1, ... in their order, as int64. A label that it has not
/// learned becomes null.
class LabelEncoder final : public internal::CategoryEncoder, public Invertible {
 public:
  explicit LabelEncoder(const std::string& label_column, const LabelEncoderOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  /// As OrdinalEncoder.
  data::BatchPtr inverse_transform_batch(const data::BatchPtr& batch) const override;
  static LabelEncoder from_state(const Json& state);
};

struct CategorizerOptions {
  /// The categories of some columns, in the order of their codes, instead of those that `fit`
  /// finds: {{"size", {"S", "M", "L"}}}. All of one type.
  std::map<std::string, Json> dtypes = {};
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Turns columns into Arrow dictionaries (int32 codes; bool, int64, uint64, float64 or string
/// values, times or decimals), which correspond to pandas' Categorical. Nulls are left out when it
/// learns, and stay null. A value that it has not learned becomes null.
class Categorizer final : public internal::CategoryEncoder {
 public:
  explicit Categorizer(std::vector<std::string> columns, const CategorizerOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  Json state() const override;
  static Categorizer from_state(const Json& state);

 private:
  Json dtypes_ = Json::object();
};

}  // namespace manta
