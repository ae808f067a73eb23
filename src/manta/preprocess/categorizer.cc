#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/categories_internal.h"
#include "manta/preprocess/encoders.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta {
namespace {

using preprocess::Categories;
using preprocess::CategoryKind;
using preprocess::CategoryType;

CategoryKind kind_of_given(const Json& values) {
  auto all = [&](auto fits) { return std::all_of(values.begin(), values.end(), fits); };
  auto is_huge = [](const Json& x) {
    return x.is_number_unsigned() && x.get<uint64_t>() > uint64_t{INT64_MAX};
  };
  if (all([](const Json& x) { return x.is_string(); })) return CategoryKind::kText;
  if (all([](const Json& x) { return x.is_boolean(); })) return CategoryKind::kBoolean;
  if (!all([](const Json& x) { return x.is_number_integer(); })) return CategoryKind::kFloat;
  bool has_huge = std::any_of(values.begin(), values.end(), is_huge);
  return has_huge ? CategoryKind::kUnsigned : CategoryKind::kInteger;
}

// Int32 codes, null where there is no code, and the values that they stand for.
std::shared_ptr<arrow::Array> dictionary_of(const std::vector<int32_t>& codes,
                                            const Categories& categories) {
  arrow::Int32Builder places;
  check(places.Reserve(static_cast<int64_t>(codes.size())), "making a dictionary");
  for (int32_t code : codes) {
    if (code < 0) {
      places.UnsafeAppendNull();
    } else {
      places.UnsafeAppend(code);
    }
  }
  auto values = categories.array();
  return std::make_shared<arrow::DictionaryArray>(arrow::dictionary(arrow::int32(), values->type()),
                                                  check(places.Finish(), "making a dictionary"),
                                                  values);
}

}  // namespace

Categorizer::Categorizer(std::vector<std::string> columns, const CategorizerOptions& options)
    : CategoryEncoder(
          internal::Columns::in_pairs("Categorizer", std::move(columns), options.output_columns),
          false, true) {
  for (const auto& [column, values] : options.dtypes) {
    if (!data::contains(columns_.inputs(), column)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(name(), ": dtypes names column '", column,
                      "', which is not among its columns ", data::join(columns_.inputs())));
    }
    if (!values.is_array() || values.empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(name(), ": dtypes of column '", column,
                      "' must be a list of categories, not ", short_text(values)));
    }
    given_[column] = std::make_shared<Categories>(CategoryType{kind_of_given(values)},
                                                  std::vector<Json>(values.begin(), values.end()));
    dtypes_[column] = values;
  }
}

data::BatchPtr Categorizer::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    auto codes = categories_[i]->codes(arrays[i], columns_.inputs()[i], name());
    if (categories_[i]->kind() == CategoryKind::kList) {
      throw Error(ErrorKind::kInvalidArgument, str(name(), ": column '", columns_.inputs()[i],
                                                   "' holds lists, which a dictionary cannot"));
    }
    arrays[i] = dictionary_of(codes, *categories_[i]);
  }
  return columns_.with(batch, std::move(arrays));
}

Json Categorizer::state() const {
  Json state = CategoryEncoder::state();
  if (!dtypes_.empty()) state["dtypes"] = dtypes_;
  return state;
}

Categorizer Categorizer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("Categorizer", fields);
  CategorizerOptions options{.output_columns = columns.outputs()};
  if (fields.has("dtypes")) {
    for (const auto& [column, values] : fields.object("dtypes").json().items()) {
      options.dtypes[column] = values;
    }
  }
  Categorizer categorizer(columns.inputs(), options);
  categorizer.read_learned(fields);
  return categorizer;
}

}  // namespace manta
