#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/bitmap_ops.h>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/unknown_column_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta::preprocess {
namespace {

using arrow::Type;
using ArrayPtr = std::shared_ptr<arrow::Array>;

constexpr const char* kConverting = "converting a column to float64";

template <class ArrowType>
ArrayPtr converted(const arrow::Array& column) {
  const auto* from = static_cast<const arrow::NumericArray<ArrowType>&>(column).raw_values();
  int64_t rows = column.length();
  auto to = check(arrow::AllocateBuffer(rows * 8), kConverting);
  auto* values = reinterpret_cast<double*>(to->mutable_data());
  for (int64_t i = 0; i < rows; ++i) values[i] = static_cast<double>(from[i]);
  return std::make_shared<arrow::DoubleArray>(rows, std::move(to), validity_of(column),
                                              column.null_count());
}

bool has_numbers(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::NA:
    case Type::BOOL:
      return true;
    case Type::DICTIONARY:
      return has_numbers(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case Type::RUN_END_ENCODED:
      return has_numbers(*static_cast<const arrow::RunEndEncodedType&>(type).value_type());
    default:
      return arrow::is_numeric(type.id()) || arrow::is_decimal(type.id());
  }
}

// Any other type that has numbers.
ArrayPtr cast_to_numbers(const ArrayPtr& column) {
  data::start_compute();
  auto plain = data::plain_column(column);
  return check(
      arrow::compute::Cast(*plain, arrow::float64(), arrow::compute::CastOptions::Unsafe()),
      kConverting);
}

}  // namespace

void require_numbers(const arrow::DataType& type, const std::string& name, const std::string& who) {
  if (has_numbers(type)) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", name, "' is of type ", type.ToString(),
                  ", which has no numbers; leave the column out, or convert it before"));
}

std::shared_ptr<arrow::Buffer> validity_of(const arrow::Array& column) {
  if (column.null_count() == 0) return nullptr;
  if (column.offset() == 0) return column.null_bitmap();
  return check(arrow::internal::CopyBitmap(arrow::default_memory_pool(), column.null_bitmap_data(),
                                           column.offset(), column.length()),
               kConverting);
}

std::shared_ptr<arrow::DoubleArray> numbers_of(const ArrayPtr& column, const std::string& name,
                                               const std::string& who) {
  ArrayPtr numbers;
  switch (column->type_id()) {
    case Type::DOUBLE:
      numbers = column;
      break;
    case Type::FLOAT:
      numbers = converted<arrow::FloatType>(*column);
      break;
    case Type::INT32:
      numbers = converted<arrow::Int32Type>(*column);
      break;
    case Type::INT64:
      numbers = converted<arrow::Int64Type>(*column);
      break;
    default:
      require_numbers(*column->type(), name, who);
      numbers = cast_to_numbers(column);
  }
  return std::static_pointer_cast<arrow::DoubleArray>(numbers);
}

void require_numbers(const arrow::Schema& schema, const std::vector<std::string>& names,
                     const std::string& who) {
  auto places = places_of(names, schema, who);
  for (size_t i = 0; i < names.size(); ++i) {
    require_numbers(*schema.field(places[i])->type(), names[i], who);
  }
}

std::shared_ptr<arrow::Buffer> new_buffer(int64_t bytes) {
  return check(arrow::AllocateBuffer(bytes), "making a column");
}

std::vector<int> places_of(const std::vector<std::string>& columns, const arrow::Schema& schema,
                           const std::string& who) {
  std::vector<int> places;
  std::string missing;
  const auto there = schema.field_names();
  for (const auto& name : columns) {
    places.push_back(schema.GetFieldIndex(name));
    if (places.back() >= 0) continue;
    missing += str(missing.empty() ? "'" : ", '", name, "'");
    auto near = data::near_matches(name, there);
    if (!near.empty()) missing += str(" (did you mean '", near[0], "'?)");
  }
  if (missing.empty()) return places;
  throw Error(ErrorKind::kNotFound,
              str(who, ": the columns ", missing, " are missing; there are: ", data::join(there)));
}

void throw_nothing_to_learn(const std::string& column, const std::string& who) {
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", column,
                  "' has nothing but nulls and NaN to learn from; leave it out, or fill it"));
}

}  // namespace manta::preprocess
