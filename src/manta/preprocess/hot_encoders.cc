#include <arrow/api.h>

#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/categories_internal.h"
#include "manta/preprocess/encoders.h"
#include "manta/preprocess/vectors_internal.h"

namespace manta {
namespace {

using preprocess::Categories;

std::shared_ptr<arrow::Array> one_hot(const std::vector<int32_t>& codes, size_t width) {
  auto bytes = preprocess::zeros(static_cast<int64_t>(codes.size() * width));
  uint8_t* row = bytes->mutable_data();
  for (int32_t code : codes) {
    if (code >= 0) row[code] = 1;
    row += width;
  }
  return preprocess::vectors<arrow::UInt8Type>(std::move(bytes), static_cast<int64_t>(width),
                                               static_cast<int64_t>(codes.size()));
}

std::shared_ptr<arrow::Array> multi_hot(const std::shared_ptr<arrow::Array>& column,
                                        const Categories& categories, const std::string& name,
                                        const std::string& who) {
  categories.require_type(preprocess::element_category_type(*column->type(), name, who), name, who);
  auto width = static_cast<int64_t>(categories.size());
  auto counts = preprocess::zeros(column->length() * width * 8);
  auto* row_counts = reinterpret_cast<int64_t*>(counts->mutable_data());
  std::vector<int32_t> codes;
  auto lists = preprocess::ListRows::of(column);
  if (!lists) codes = categories.codes(column, name, who);
  preprocess::require_no_missing(codes, name, who);
  for (int64_t row = 0; row < column->length(); ++row, row_counts += width) {
    if (!lists) {
      int32_t code = codes[static_cast<size_t>(row)];
      if (code >= 0) ++row_counts[code];
      continue;
    }
    if (column->IsNull(row)) preprocess::require_no_missing({Categories::kMissing}, name, who);
    codes.resize(static_cast<size_t>(lists->end(row) - lists->begin(row)));
    categories.codes_of(*lists->values, lists->begin(row), lists->end(row), codes.data());
    preprocess::require_no_missing(codes, name, who);
    for (int32_t code : codes) {
      if (code >= 0) ++row_counts[code];
    }
  }
  return preprocess::vectors<arrow::Int64Type>(std::move(counts), width, column->length());
}

}  // namespace

OneHotEncoder::OneHotEncoder(std::vector<std::string> columns, const OneHotEncoderOptions& options)
    : CategoryEncoder(
          internal::Columns::in_pairs("OneHotEncoder", std::move(columns), options.output_columns),
          false) {
  set_most(options.max_categories);
}

data::BatchPtr OneHotEncoder::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    auto codes = categories_[i]->codes(arrays[i], columns_.inputs()[i], name());
    preprocess::require_no_missing(codes, columns_.inputs()[i], name());
    arrays[i] = one_hot(codes, categories_[i]->size());
  }
  return columns_.with(batch, std::move(arrays));
}

OneHotEncoder OneHotEncoder::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("OneHotEncoder", fields);
  OneHotEncoder encoder(columns.inputs(), {.output_columns = columns.outputs()});
  encoder.read_learned(fields);
  return encoder;
}

MultiHotEncoder::MultiHotEncoder(std::vector<std::string> columns,
                                 const MultiHotEncoderOptions& options)
    : CategoryEncoder(internal::Columns::in_pairs("MultiHotEncoder", std::move(columns),
                                                  options.output_columns),
                      true) {
  set_most(options.max_categories);
}

data::BatchPtr MultiHotEncoder::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    arrays[i] = multi_hot(arrays[i], *categories_[i], columns_.inputs()[i], name());
  }
  return columns_.with(batch, std::move(arrays));
}

MultiHotEncoder MultiHotEncoder::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("MultiHotEncoder", fields);
  MultiHotEncoder encoder(columns.inputs(), {.output_columns = columns.outputs()});
  encoder.read_learned(fields);
  return encoder;
}

}  // namespace manta
