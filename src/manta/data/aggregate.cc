#include "manta/data/aggregate.h"

#include <arrow/api.h>
#include <arrow/util/decimal.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/aggregate_internal.h"
#include "manta/data/custom_aggregate.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace {

constexpr std::array<const char*, 9> kAggregateNames = {
    "count", "sum", "min", "max", "mean", "std", "quantile", "unique", "custom"};

const char* name_of(Aggregate::Kind kind) { return kAggregateNames[static_cast<size_t>(kind)]; }

}  // namespace

Aggregate::Aggregate(Kind kind, std::string column, double parameter)
    : kind_(kind),
      column_(std::move(column)),
      parameter_(parameter),
      name_(str(name_of(kind), "(", column_, ")")) {
  if (kind == Kind::kCustom) {
    throw Error(ErrorKind::kInvalidArgument, "an aggregate of your own is made by agg::custom");
  }
  bool fits = kind != Kind::kQuantile || (parameter >= 0 && parameter <= 1);
  if (!fits) {
    throw Error(ErrorKind::kInvalidArgument, str(name_, " needs a q from 0 to 1, not ", parameter));
  }
  if (kind == Kind::kStd && parameter != 0 && parameter != 1) {
    throw Error(ErrorKind::kInvalidArgument,
                str(name_, " needs a ddof of 0 or 1, not ", parameter));
  }
}

Aggregate::Aggregate(std::shared_ptr<const data::PlanFunction> function,
                     std::vector<std::string> columns, std::string name)
    : kind_(Kind::kCustom),
      name_(std::move(name)),
      function_(std::move(function)),
      custom_columns_(std::move(columns)) {
  if (custom_columns_.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                str(name_, " needs the columns that it looks at, at least one"));
  }
  data::require_distinct(custom_columns_, "the columns of " + name_);
}

std::vector<std::string> Aggregate::columns() const {
  if (kind_ == Kind::kCustom) return custom_columns_;
  return column_.empty() ? std::vector<std::string>{} : std::vector{column_};
}

Aggregate Aggregate::as(std::string name) const {
  Aggregate renamed = *this;
  renamed.name_ = std::move(name);
  return renamed;
}

namespace agg {

Aggregate count(const std::string& column) { return {Aggregate::Kind::kCount, column}; }
Aggregate sum(const std::string& column) { return {Aggregate::Kind::kSum, column}; }
Aggregate min(const std::string& column) { return {Aggregate::Kind::kMin, column}; }
Aggregate max(const std::string& column) { return {Aggregate::Kind::kMax, column}; }
Aggregate mean(const std::string& column) { return {Aggregate::Kind::kMean, column}; }
Aggregate std(const std::string& column, int ddof) {
  return {Aggregate::Kind::kStd, column, static_cast<double>(ddof)};
}
Aggregate quantile(const std::string& column, double q) {
  return {Aggregate::Kind::kQuantile, column, q};
}
Aggregate unique(const std::string& column) { return {Aggregate::Kind::kUnique, column}; }

}  // namespace agg

namespace data {

namespace detail {

Aggregate make_custom(PlanFunction function, const std::type_info& type, const std::string& name,
                      std::vector<std::string> columns) {
  std::string called = name;
  if (called.empty()) {
    called = demangle(type.name());
    auto scope = called.rfind("::");
    if (scope != std::string::npos) called = called.substr(scope + 2);
  }
  std::string full = str(called, "(", join(columns), ")");
  return Aggregate(std::make_shared<PlanFunction>(std::move(function)), std::move(columns),
                   std::move(full));
}

}  // namespace detail

namespace {

using arrow::Type;
using ArrayPtr = std::shared_ptr<arrow::Array>;
using TypePtr = std::shared_ptr<arrow::DataType>;

constexpr const char* kAggregating = "aggregating";

bool is_decimal_of_128(const arrow::DataType& type) {
  return type.id() == Type::DECIMAL32 || type.id() == Type::DECIMAL64 ||
         type.id() == Type::DECIMAL128;
}

int scale_of(const arrow::DataType& type) {
  return is_decimal_of_128(type) ? static_cast<const arrow::DecimalType&>(type).scale() : 0;
}

// The columns that can be added up, as integers or float64.
TypePtr number_lane(const arrow::DataType& type) {
  if (type.id() == Type::BOOL) return arrow::uint8();
  if (type.id() == Type::DURATION) return arrow::int64();
  if (arrow::is_integer(type.id())) return type.GetSharedPtr();
  if (arrow::is_floating(type.id())) return arrow::float64();
  if (is_decimal_of_128(type)) return arrow::fixed_size_binary(16);
  return nullptr;
}

ArrayPtr numbers_of(const ArrayPtr& column) {
  if (arrow::is_floating(column->type_id())) {
    if (column->type_id() == Type::DOUBLE) return column;
    auto keys = Key::encode(column);  // keeps every value of a float, except for the sign of 0
    return Key::decode(keys, arrow::float64());
  }
  bool narrow = column->type_id() == Type::DECIMAL32 || column->type_id() == Type::DECIMAL64;
  if (!narrow) return Payload::encode(column);
  auto lane = Payload::encode(column);
  arrow::FixedSizeBinaryBuilder builder(arrow::fixed_size_binary(16));
  for (int64_t i = 0; i < lane->length(); ++i) {
    if (lane->IsNull(i)) {
      check(builder.AppendNull(), kAggregating);
      continue;
    }
    int64_t value = lane->type_id() == Type::INT32
                        ? static_cast<const arrow::Int32Array&>(*lane).Value(i)
                        : static_cast<const arrow::Int64Array&>(*lane).Value(i);
    auto bytes = arrow::Decimal128(value).ToBytes();
    check(builder.Append(bytes.data()), kAggregating);
  }
  return check(builder.Finish(), kAggregating);
}

ArrayPtr where_valid(const arrow::Array& column) {
  arrow::UInt8Builder builder;
  check(builder.Reserve(column.length()), kAggregating);
  for (int64_t i = 0; i < column.length(); ++i) {
    if (column.IsNull(i)) {
      builder.UnsafeAppendNull();
    } else {
      builder.UnsafeAppend(1);
    }
  }
  return check(builder.Finish(), kAggregating);
}

TypePtr sum_type(const arrow::DataType& type) {
  if (type.id() == Type::DURATION) return type.GetSharedPtr();
  if (is_decimal_of_128(type)) return arrow::decimal128(38, scale_of(type));
  if (arrow::is_floating(type.id())) return arrow::float64();
  return arrow::is_unsigned_integer(type.id()) ? arrow::uint64() : arrow::int64();
}

}  // namespace

PreparedAggregate::PreparedAggregate(const Aggregate& aggregate, const arrow::Schema& schema,
                                     const std::string& doing)
    : aggregate_(aggregate), doing_(doing) {
  const std::string& column = aggregate.column();
  if (column.empty() && aggregate.kind() == Kind::kCount) return;
  auto found = schema.GetFieldByName(column);
  if (!found) {
    throw Error(ErrorKind::kNotFound,
                str("in ", doing, ": ", no_such_column(column, schema.field_names())));
  }
  type_ = found->type();
  plain_ = plain_type(type_);
  if (lane()) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("in ", doing, ": ", aggregate.name(), " of a column of type ", type_->ToString(),
                  " is not possible"));
}

TypePtr PreparedAggregate::lane() const {
  switch (aggregate_.kind()) {
    case Kind::kCount:
      return plain_ ? arrow::uint8() : nullptr;
    case Kind::kMin:
    case Kind::kMax:
    case Kind::kUnique:
      return Key::lane_type(*plain_);
    case Kind::kSum:
      return number_lane(*plain_);
    default:
      return plain_->id() == Type::DURATION ? nullptr : number_lane(*plain_);
  }
}

std::shared_ptr<arrow::Field> PreparedAggregate::field() const {
  auto type = [&]() -> TypePtr {
    switch (aggregate_.kind()) {
      case Kind::kCount:
        return arrow::int64();
      case Kind::kSum:
        return sum_type(*plain_);
      case Kind::kMin:
      case Kind::kMax:
        return plain_;
      case Kind::kUnique:
        return arrow::large_list(plain_);
      default:
        return arrow::float64();
    }
  }();
  return arrow::field(aggregate_.name(), type);
}

ArrayPtr PreparedAggregate::encode(const arrow::RecordBatch& batch) const {
  auto column = batch.GetColumnByName(aggregate_.column());
  switch (aggregate_.kind()) {
    case Kind::kCount:
      return where_valid(*plain_column(column));
    case Kind::kMin:
    case Kind::kMax:
    case Kind::kUnique:
      return Key::encode(column);
    default:
      return numbers_of(plain_column(column));
  }
}

std::string PreparedAggregate::sql(const std::string& c) const {
  bool floating = plain_ && arrow::is_floating(plain_->id());
  const std::string not_nan = str(" FILTER (WHERE ", c, " <> ", kNanKey, ")");
  const std::string number = str("(", c, "::DOUBLE)");
  switch (aggregate_.kind()) {
    case Kind::kCount:
      return plain_ ? str("count(", c, ")") : "count(*)";
    case Kind::kSum:
      return str("sum(", c, ")::", floating ? "DOUBLE" : "HUGEINT");
    case Kind::kMin:
      return str("min(", c, ")");
    case Kind::kMax:
      if (!floating) return str("max(", c, ")");
      return str("coalesce(max(", c, ")", not_nan, ", max(", c, "))");
    case Kind::kMean:
      return str("avg(", c, floating ? ")" : "::HUGEINT)", "::DOUBLE");
    case Kind::kStd: {
      const char* function = aggregate_.parameter() == 0 ? "stddev_pop" : "stddev_samp";
      if (!floating) return str(function, number);
      return str("CASE WHEN count(*) FILTER (WHERE NOT isfinite(", c,
                 ")) > 0 THEN 'NaN'::DOUBLE ELSE ", function, "(", c, ") FILTER (WHERE isfinite(",
                 c, ")) END");
    }
    case Kind::kQuantile: {
      // Prints all digits: fewer digits would be another number in SQL.
      std::array<char, 64> q{};
      std::snprintf(q.data(), q.size(), "%.17g", aggregate_.parameter());
      std::string quantile = str("quantile_cont(", number, ", ", q.data(), "::DOUBLE)");
      if (!floating) return quantile;
      return str("CASE WHEN count(*) FILTER (WHERE isnan(", c, ")) > 0 THEN 'NaN'::DOUBLE ELSE ",
                 quantile, " END");
    }
    case Kind::kUnique:
      return str("list(DISTINCT ", c, " ORDER BY ", c, ") FILTER (WHERE ", c, " IS NOT NULL)");
    case Kind::kCustom:  // in custom_groups.cc
      break;
  }
  return {};
}

TypePtr PreparedAggregate::result_lane() const {
  switch (aggregate_.kind()) {
    case Kind::kCount:
      return arrow::int64();
    case Kind::kSum:
      return arrow::is_floating(plain_->id()) ? arrow::float64() : arrow::fixed_size_binary(16);
    case Kind::kMin:
    case Kind::kMax:
      return lane();
    case Kind::kUnique:
      return arrow::large_list(lane());
    default:
      return arrow::float64();
  }
}

ArrayPtr PreparedAggregate::decode(const ArrayPtr& lane) const {
  TypePtr type = field()->type();
  switch (aggregate_.kind()) {
    case Kind::kMin:
    case Kind::kMax:
      return Key::decode(lane, type);
    case Kind::kUnique: {
      auto& lists = static_cast<const arrow::LargeListArray&>(*lane);
      auto data = lane->data()->Copy();  // no values: an empty list, not null
      data->type = type;
      data->buffers[0] = nullptr;
      data->null_count = 0;
      data->child_data = {Key::decode(lists.values(), plain_)->data()};
      return arrow::MakeArray(data);
    }
    case Kind::kMean:
    case Kind::kQuantile:
    case Kind::kStd: {
      int scale = scale_of(*plain_);
      if (scale == 0) return lane;
      auto& numbers = static_cast<const arrow::DoubleArray&>(*lane);
      arrow::DoubleBuilder builder;
      for (int64_t i = 0; i < numbers.length(); ++i) {
        check(numbers.IsNull(i) ? builder.AppendNull()
                                : builder.Append(numbers.Value(i) / std::pow(10, scale)),
              kAggregating);
      }
      return check(builder.Finish(), kAggregating);
    }
    case Kind::kSum:
      break;
    case Kind::kCount:
    case Kind::kCustom:
      return lane;
  }
  if (type->id() == Type::DOUBLE) return lane;
  auto& sums = static_cast<const arrow::FixedSizeBinaryArray&>(*lane);
  auto builder =
      check(arrow::MakeBuilder(type->id() == Type::DURATION ? arrow::int64() : type), kAggregating);
  for (int64_t i = 0; i < sums.length(); ++i) {
    if (sums.IsNull(i)) {
      check(builder->AppendNull(), kAggregating);
      continue;
    }
    arrow::Decimal128 sum(sums.GetValue(i));
    auto high = sum.high_bits();
    bool fits = true;
    if (type->id() == Type::DECIMAL128) {
      fits = sum.FitsInPrecision(38);
      if (fits) check(static_cast<arrow::Decimal128Builder&>(*builder).Append(sum), kAggregating);
    } else if (type->id() == Type::UINT64) {
      fits = high == 0;
      if (fits)
        check(static_cast<arrow::UInt64Builder&>(*builder).Append(sum.low_bits()), kAggregating);
    } else {
      auto low = static_cast<int64_t>(sum.low_bits());
      fits = high == (low < 0 ? -1 : 0);
      if (fits) check(static_cast<arrow::Int64Builder&>(*builder).Append(low), kAggregating);
    }
    if (fits) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", doing_, ": ", aggregate_.name(), " is ", sum.ToString(scale_of(*plain_)),
                    ", which does not fit into ", type->ToString(),
                    "; cast the column to float64 before, for a rounded sum"));
  }
  auto column = check(builder->Finish(), kAggregating);
  return type->id() == Type::DURATION ? Payload::decode(column, type) : column;
}

bool PreparedAggregate::depends_on_order() const {
  bool floating = plain_ && arrow::is_floating(plain_->id());
  bool adds = aggregate_.kind() == Kind::kSum || aggregate_.kind() == Kind::kMean;
  return aggregate_.kind() == Kind::kStd || (adds && floating);
}

Json aggregate_to_json(const Aggregate& aggregate, PlanFunctions& functions) {
  Json json = {{"kind", name_of(aggregate.kind())}, {"name", aggregate.name()}};
  if (aggregate.kind() == Aggregate::Kind::kCustom) {
    functions.push_back(*aggregate.function());
    json["columns"] = aggregate.columns();
    json["function"] = functions.size() - 1;
  } else {
    json["column"] = aggregate.column();
    json["parameter"] = aggregate.parameter();
  }
  return json;
}

Aggregate aggregate_from_json(const JsonFields& fields, const PlanFunctions& functions) {
  std::string kind = fields.text("kind"), name = fields.text("name", kLongestName);
  auto found = std::find(kAggregateNames.begin(), kAggregateNames.end(), kind);
  if (found == kAggregateNames.end()) fields.fail("kind", "the name of an aggregate");
  if (kind == name_of(Aggregate::Kind::kCustom)) {
    if (functions.empty()) fields.fail("function", "the number of a function: the plan has none");
    auto last = static_cast<int64_t>(functions.size()) - 1;
    const auto& function = functions[static_cast<size_t>(fields.integer("function", 0, last))];
    if (!function.aggregate()) fields.fail("function", "the number of an aggregate");
    return Aggregate(std::make_shared<PlanFunction>(function),
                     fields.texts("columns", kLongestName), std::move(name));
  }
  return Aggregate(static_cast<Aggregate::Kind>(found - kAggregateNames.begin()),
                   fields.text("column", kLongestName), fields.number("parameter", 0, 1))
      .as(std::move(name));
}

}  // namespace data
}  // namespace manta
