#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/bitmap_ops.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/fold_batches.h"
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

void require_numbers(const arrow::DataType& type, const std::string& name, const std::string& who) {
  if (has_numbers(type)) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", name, "' is of type ", type.ToString(),
                  ", which has no numbers; leave the column out, or convert it before"));
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

namespace {

template <class Take>
void for_each_number(const arrow::DoubleArray& values, Take take) {
  const double* numbers = values.raw_values();
  bool has_nulls = values.null_count() > 0;
  for (int64_t i = 0; i < values.length(); ++i) {
    if (has_nulls && values.IsNull(i)) continue;
    if (!std::isnan(numbers[i])) take(numbers[i]);
  }
}

// The sum of two numbers, and what rounding it lost (Knuth's TwoSum).
std::pair<double, double> exact_sum(double a, double b) {
  double sum = a + b;
  double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

void add_to_mean(Summary& summary, double more) {
  auto [mean, lost] = exact_sum(summary.mean, more);
  std::tie(summary.mean, summary.mean_rest) = exact_sum(mean, summary.mean_rest + lost);
}

void require_schema(const Dataset& dataset, const std::vector<std::string>& columns,
                    const std::string& who) {
  auto schema = data::schema_of(*dataset.plan());
  if (!schema) return;  // after map_batches; then each batch is looked at
  auto places = places_of(columns, *schema, who);
  for (size_t i = 0; i < columns.size(); ++i) {
    require_numbers(*schema->field(places[i])->type(), columns[i], who);
  }
}

}  // namespace

Summary summary_of(const arrow::DoubleArray& values) {
  Summary summary;
  double first = 0, sum = 0;
  for_each_number(values, [&](double x) {
    if (summary.count++ == 0) first = x;
    sum += x - first;
    summary.min = std::min(summary.min, x);
    summary.max = std::max(summary.max, x);
  });
  if (summary.count == 0) return summary;
  auto count = static_cast<double>(summary.count);
  summary.mean = first + sum / count;
  // What rounding lost of the mean is in the sum of the differences.
  double differences = 0;
  for_each_number(values, [&](double x) {
    differences += x - summary.mean;
    summary.squares += (x - summary.mean) * (x - summary.mean);
  });
  summary.squares -= differences * differences / count;
  add_to_mean(summary, differences / count);
  return summary;
}

void merge(Summary& all, const Summary& more) {
  if (more.count == 0) return;
  if (all.count == 0) {
    all = more;
    return;
  }
  auto before = static_cast<double>(all.count), added = static_cast<double>(more.count);
  double count = before + added;
  double difference = (more.mean - all.mean) + (more.mean_rest - all.mean_rest);
  all.count += more.count;
  add_to_mean(all, difference * (added / count));
  all.squares += more.squares + difference * difference * (before * added / count);
  all.min = std::min(all.min, more.min);
  all.max = std::max(all.max, more.max);
}

std::vector<int> places_of(const std::vector<std::string>& columns, const arrow::Schema& schema,
                           const std::string& who) {
  std::vector<int> places;
  std::string missing;
  for (const auto& name : columns) {
    places.push_back(schema.GetFieldIndex(name));
    if (places.back() < 0) missing += str(missing.empty() ? "'" : ", '", name, "'");
  }
  if (missing.empty()) return places;
  throw Error(ErrorKind::kNotFound, str(who, ": the columns ", missing, " are missing; there are: ",
                                        data::join(schema.field_names())));
}

std::vector<Summary> summarise(const Dataset& dataset, const std::vector<std::string>& columns,
                               const std::string& who) {
  require_schema(dataset, columns, who);
  auto of_batch = [&](const data::BatchPtr& batch) {
    std::vector<Summary> parts;
    for (int place : places_of(columns, *batch->schema(), who)) {
      const auto& name = columns[parts.size()];
      parts.push_back(summary_of(*numbers_of(batch->column(place), name, who)));
    }
    return parts;
  };
  auto add = [](std::vector<Summary>& all, const std::vector<Summary>& more) {
    for (size_t i = 0; i < all.size(); ++i) merge(all[i], more[i]);
  };
  auto all = fold_batches<std::vector<Summary>>(dataset.select_columns(columns), of_batch, add);
  if (!all) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str(who, " cannot learn from a data set without rows; check its files and filters"));
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if ((*all)[i].count > 0) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str(who, ": column '", columns[i],
                    "' has nothing but nulls and NaN to learn from; leave it out, or fill it"));
  }
  return std::move(*all);
}

}  // namespace manta::preprocess
