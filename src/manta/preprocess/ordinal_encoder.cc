#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/categories_internal.h"
#include "manta/preprocess/encoders.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta {
namespace {

using preprocess::Categories;
using preprocess::ListRows;

// A list of codes for each list of values.
std::shared_ptr<arrow::Array> list_codes(const std::shared_ptr<arrow::Array>& column,
                                         const Categories& categories, const std::string& name,
                                         const std::string& who) {
  categories.require_type(preprocess::element_category_type(*column->type(), name, who), name, who);
  auto lists = ListRows::of(column);
  int64_t rows = column->length();
  auto offsets = preprocess::new_buffer((rows + 1) * 4);
  auto* ends = reinterpret_cast<int32_t*>(offsets->mutable_data());
  std::vector<int32_t> codes;
  ends[0] = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (column->IsNull(row)) {
      preprocess::require_no_missing({Categories::kMissing}, name, who);
    }
    size_t before = codes.size();
    int64_t begin = lists->begin(row), end = lists->end(row);
    codes.resize(before + static_cast<size_t>(end - begin));
    if (codes.size() > INT32_MAX) {
      throw Error(ErrorKind::kInvalidArgument, str(who, ": the lists of column '", name,
                                                   "' have more than 2^31 elements in one "
                                                   "batch"));
    }
    categories.codes_of(*lists->values, begin, end, codes.data() + before);
    ends[row + 1] = static_cast<int32_t>(codes.size());
  }
  preprocess::require_no_missing(codes, name, who);
  return std::make_shared<arrow::ListArray>(arrow::list(arrow::int64()), rows, std::move(offsets),
                                            preprocess::codes_as_integers(codes));
}

std::shared_ptr<arrow::Array> ordinals(const std::shared_ptr<arrow::Array>& column,
                                       const Categories& categories, bool by_element,
                                       const std::string& name, const std::string& who) {
  bool is_list =
      preprocess::category_type(*column->type(), name, who).kind == preprocess::CategoryKind::kList;
  if (is_list && by_element) return list_codes(column, categories, name, who);
  auto codes = categories.codes(column, name, who);
  preprocess::require_no_missing(codes, name, who);
  return preprocess::codes_as_integers(codes);
}

data::BatchPtr undo(const internal::Columns& columns,
                    const std::vector<preprocess::CategoriesPtr>& categories,
                    const data::BatchPtr& batch) {
  internal::Columns back(columns.who(), columns.outputs(), columns.inputs());
  auto arrays = back.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (categories[i]->kind() == preprocess::CategoryKind::kList) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(columns.who(), ": column '", columns.inputs()[i],
                      "' was learned from whole lists, which codes do not become again"));
    }
    arrays[i] =
        preprocess::values_of_codes(*arrays[i], *categories[i], back.inputs()[i], columns.who());
  }
  return back.with(batch, std::move(arrays));
}

}  // namespace

OrdinalEncoder::OrdinalEncoder(std::vector<std::string> columns,
                               const OrdinalEncoderOptions& options)
    : CategoryEncoder(
          internal::Columns::in_pairs("OrdinalEncoder", std::move(columns), options.output_columns),
          options.encode_lists) {}

data::BatchPtr OrdinalEncoder::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    arrays[i] = ordinals(arrays[i], *categories_[i], by_element_, columns_.inputs()[i], name());
  }
  return columns_.with(batch, std::move(arrays));
}

data::BatchPtr OrdinalEncoder::inverse_transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  return undo(columns_, categories_, batch);
}

Json OrdinalEncoder::state() const {
  Json state = CategoryEncoder::state();
  state["encode_lists"] = by_element_;
  return state;
}

OrdinalEncoder OrdinalEncoder::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("OrdinalEncoder", fields);
  OrdinalEncoder encoder(columns.inputs(), {.encode_lists = fields.boolean("encode_lists"),
                                            .output_columns = columns.outputs()});
  encoder.read_learned(fields);
  return encoder;
}

LabelEncoder::LabelEncoder(const std::string& label_column, const LabelEncoderOptions& options)
    : CategoryEncoder(
          internal::Columns("LabelEncoder", {label_column},
                            {options.output_column.empty() ? label_column : options.output_column}),
          false) {}

data::BatchPtr LabelEncoder::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto labels = columns_.of(*batch);
  labels[0] = ordinals(labels[0], *categories_[0], false, columns_.inputs()[0], name());
  return columns_.with(batch, std::move(labels));
}

data::BatchPtr LabelEncoder::inverse_transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  return undo(columns_, categories_, batch);
}

LabelEncoder LabelEncoder::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("LabelEncoder", fields);
  if (columns.size() != 1) fields.fail("columns", "one column");
  LabelEncoder encoder(columns.inputs()[0], {.output_column = columns.outputs()[0]});
  encoder.read_learned(fields);
  return encoder;
}

}  // namespace manta
