#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_generate.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "manta/base/error_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/exact_number_internal.h"
#include "manta/data/validity_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using arrow::Type;
using ArrayPtr = std::shared_ptr<arrow::Array>;
using Op = ExpressionOp;

constexpr const char* kDoing = "comparing columns";

const char* comparison_function(Op op) {
  switch (op) {
    case Op::kEqual:
      return "equal";
    case Op::kNotEqual:
      return "not_equal";
    case Op::kLess:
      return "less";
    case Op::kLessEqual:
      return "less_equal";
    case Op::kGreater:
      return "greater";
    default:
      MANTA_CHECK(op == Op::kGreaterEqual, "not a comparison");
      return "greater_equal";
  }
}

// b `mirrored(op)` a means the same as a `op` b.
Op mirrored(Op op) {
  switch (op) {
    case Op::kLess:
      return Op::kGreater;
    case Op::kLessEqual:
      return Op::kGreaterEqual;
    case Op::kGreater:
      return Op::kLess;
    case Op::kGreaterEqual:
      return Op::kLessEqual;
    default:
      return op;
  }
}

Datum call(Op op, const Datum& a, const Datum& b) {
  return check(cp::CallFunction(comparison_function(op), {a, b}), kDoing);
}

ArrayPtr cast(const ArrayPtr& column, const std::shared_ptr<arrow::DataType>& type) {
  if (column->type()->Equals(*type)) return column;
  return check(cp::Cast(*column, type), kDoing);
}

Datum make_flags(std::shared_ptr<arrow::Buffer> bits, std::shared_ptr<arrow::Buffer> valid,
                 int64_t rows) {
  int64_t nulls = valid ? arrow::kUnknownNullCount : 0;
  return Datum(
      arrow::ArrayData::Make(arrow::boolean(), rows, {std::move(valid), std::move(bits)}, nulls));
}

// The same for each row that is not null.
Datum everywhere(bool flag, const arrow::Array& column) {
  auto bits = check(arrow::AllocateBitmap(column.length()), kDoing);
  std::fill_n(bits->mutable_data(), bits->size(), flag ? 0xff : 0x00);
  return make_flags(std::move(bits), valid_in_both(column, column), column.length());
}

// `order(row)` is how a row's left value compares with its right one.
template <class Order>
Datum compare_rows(Op op, const arrow::Array& a, const arrow::Array& b, Order&& order) {
  auto bits = check(arrow::AllocateBitmap(a.length()), kDoing);
  auto fill = [&](auto&& holds) {
    int64_t row = 0;
    arrow::internal::GenerateBitsUnrolled(bits->mutable_data(), 0, a.length(),
                                          [&] { return holds(order(row++)); });
  };
  switch (op) {
    case Op::kEqual:
      fill([](std::partial_ordering o) { return o == 0; });
      break;
    case Op::kNotEqual:
      fill([](std::partial_ordering o) { return o != 0; });
      break;
    case Op::kLess:
      fill([](std::partial_ordering o) { return o < 0; });
      break;
    case Op::kLessEqual:
      fill([](std::partial_ordering o) { return o <= 0; });
      break;
    case Op::kGreater:
      fill([](std::partial_ordering o) { return o > 0; });
      break;
    default:
      fill([](std::partial_ordering o) { return o >= 0; });
  }
  return make_flags(std::move(bits), valid_in_both(a, b), a.length());
}

Datum compare_with_constant(Op op, const ArrayPtr& column, const arrow::Scalar& constant) {
  ExactNumber number = exact_value(*check(arrow::MakeArrayFromScalar(constant, 1), kDoing), 0);
  if (number.kind == ExactNumber::Kind::kNaN) return everywhere(op == Op::kNotEqual, *column);
  auto stored = stored_numbers(column);
  Floor floor = floor_in(number, *stored->type(), unit_of(*column->type()));
  if (!floor.value) {
    return everywhere(op == Op::kGreater || op == Op::kGreaterEqual || op == Op::kNotEqual,
                      *column);
  }
  if (!floor.exact) {  // the constant lies between the floor and the next value of the type
    if (op == Op::kEqual || op == Op::kNotEqual) return everywhere(op == Op::kNotEqual, *column);
    op = op == Op::kLess || op == Op::kLessEqual ? Op::kLessEqual : Op::kGreater;
  }
  return call(op, stored, floor.value);
}

// An integer and a double, neither of which need be representable as the other.
template <class T>
std::partial_ordering order_of(T integer, double number) {
  constexpr double kBegin = std::is_signed_v<T> ? -0x1p63 : 0.0;
  constexpr double kEnd = std::is_signed_v<T> ? 0x1p63 : 0x1p64;
  if (number != number) return std::partial_ordering::unordered;
  if (number >= kEnd) return std::partial_ordering::less;
  if (number < kBegin) return std::partial_ordering::greater;
  T whole = static_cast<T>(number);
  if (integer != whole) return integer <=> whole;
  return 0.0 <=> number - std::trunc(number);
}

template <class T>
const T* values_of(const arrow::Array& column) {
  return static_cast<const arrow::NumericArray<typename arrow::CTypeTraits<T>::ArrowType>&>(column)
      .raw_values();
}

// As int64, or as uint64 if they do not fit into that.
ArrayPtr as_wide_integers(const ArrayPtr& column) {
  return column->type_id() == Type::UINT64 ? column : cast(column, arrow::int64());
}
template <class Visit>
Datum with_wide_integers(const arrow::Array& column, Visit&& visit) {
  if (column.type_id() == Type::UINT64) return visit(values_of<uint64_t>(column));
  return visit(values_of<int64_t>(column));
}

Datum compare_integer_with_floating(Op op, const ArrayPtr& integers, const ArrayPtr& floating) {
  auto doubles = cast(floating, arrow::float64());
  if (integers->type()->bit_width() <= 32) {
    return call(op, cast(integers, arrow::float64()), doubles);
  }
  const double* right = values_of<double>(*doubles);
  return with_wide_integers(*integers, [&](const auto* left) {
    return compare_rows(op, *integers, *doubles,
                        [=](int64_t row) { return order_of(left[row], right[row]); });
  });
}

// Integers that count different units; products have at most 64 + 47 bits.
Datum compare_integers(Op op, ArrayPtr a, const Unit& unit_a, ArrayPtr b, const Unit& unit_b) {
  a = as_wide_integers(a);
  b = as_wide_integers(b);
  if (unit_a == unit_b && a->type_id() == b->type_id()) return call(op, a, b);
  const int64_t factor_a = unit_a.numerator * unit_b.denominator;
  const int64_t factor_b = unit_b.numerator * unit_a.denominator;
  return with_wide_integers(*a, [&](const auto* left) {
    return with_wide_integers(*b, [&](const auto* right) {
      return compare_rows(op, *a, *b, [=](int64_t row) -> std::partial_ordering {
        __int128 x = static_cast<__int128>(left[row]) * factor_a;
        __int128 y = static_cast<__int128>(right[row]) * factor_b;
        return x < y    ? std::partial_ordering::less
               : x == y ? std::partial_ordering::equivalent
                        : std::partial_ordering::greater;
      });
    });
  });
}

// A decimal type that holds all values of both; nothing if there is none.
std::shared_ptr<arrow::DataType> common_decimal(const arrow::DataType& a,
                                                const arrow::DataType& b) {
  auto digits = [](const arrow::DataType& type) {  // before and after the point
    if (!arrow::is_decimal(type.id())) return std::pair(20, 0);
    auto& decimal = static_cast<const arrow::DecimalType&>(type);
    return std::pair(decimal.precision() - decimal.scale(), decimal.scale());
  };
  int scale = std::max(digits(a).second, digits(b).second);
  int precision = std::max(digits(a).first, digits(b).first) + scale;
  if (precision > arrow::Decimal256Type::kMaxPrecision || scale < 0 || scale > precision) return {};
  return precision <= arrow::Decimal128Type::kMaxPrecision ? arrow::decimal128(precision, scale)
                                                           : arrow::decimal256(precision, scale);
}

Datum compare_exactly(Op op, const ArrayPtr& a, const ArrayPtr& b) {
  return compare_rows(op, *a, *b, [&](int64_t row) {
    if (a->IsNull(row) || b->IsNull(row)) return std::partial_ordering::unordered;
    return compare(exact_value(*a, row), exact_value(*b, row));
  });
}

Datum compare_decimals(Op op, const ArrayPtr& a, const ArrayPtr& b) {
  if (auto type = common_decimal(*a->type(), *b->type())) {
    auto left = cp::Cast(*a, type), right = cp::Cast(*b, type);
    // A value with more digits than its type says does not fit.
    if (left.ok() && right.ok()) return call(op, *left, *right);
  }
  return compare_exactly(op, a, b);
}

Datum compare_columns(Op op, const ArrayPtr& a, const ArrayPtr& b) {
  auto left = stored_numbers(a), right = stored_numbers(b);
  if (a->type()->Equals(*b->type())) return call(op, left, right);
  bool left_floating = arrow::is_floating(left->type_id());
  bool right_floating = arrow::is_floating(right->type_id());
  bool left_decimal = arrow::is_decimal(left->type_id());
  bool right_decimal = arrow::is_decimal(right->type_id());
  if (left_floating && right_floating) {
    return call(op, cast(left, arrow::float64()), cast(right, arrow::float64()));
  }
  if ((left_decimal || right_decimal) && (left_floating || right_floating)) {
    return compare_exactly(op, a, b);
  }
  if (left_decimal || right_decimal) return compare_decimals(op, a, b);
  if (left_floating) return compare_integer_with_floating(mirrored(op), right, left);
  if (right_floating) return compare_integer_with_floating(op, left, right);
  return compare_integers(op, left, unit_of(*a->type()), right, unit_of(*b->type()));
}

// The bytes of a column's rows, or of a constant.
class Bytes {
 public:
  explicit Bytes(const Datum& value) {
    if (value.is_array()) {
      column_ = value.make_array();
    } else {
      constant_ = static_cast<const arrow::BaseBinaryScalar&>(*value.scalar()).view();
    }
  }
  const ArrayPtr& column() const { return column_; }
  std::string_view constant() const { return constant_; }

  std::string_view at(int64_t row) const {
    if (!column_) return constant_;
    if (column_->IsNull(row)) return {};
    switch (column_->type_id()) {
      case Type::STRING:
      case Type::BINARY:
        return static_cast<const arrow::BinaryArray&>(*column_).GetView(row);
      case Type::LARGE_STRING:
      case Type::LARGE_BINARY:
        return static_cast<const arrow::LargeBinaryArray&>(*column_).GetView(row);
      case Type::FIXED_SIZE_BINARY:
        return static_cast<const arrow::FixedSizeBinaryArray&>(*column_).GetView(row);
      default:
        return static_cast<const arrow::BinaryViewArray&>(*column_).GetView(row);
    }
  }

 private:
  ArrayPtr column_;
  std::string_view constant_;
};

Datum compare_bytes(Op op, const ArrayPtr& a, const Datum& b) {
  Bytes left(a), right(b);
  bool has_kernel = arrow::is_base_binary_like(a->type_id());
  if (has_kernel && !right.column()) {
    auto bytes = arrow::Buffer::FromString(std::string(right.constant()));
    return call(op, a, check(arrow::MakeScalar(a->type(), bytes), kDoing));
  }
  if (has_kernel && a->type()->Equals(*b.type())) return call(op, a, b);
  return compare_rows(op, *a, right.column() ? *right.column() : *a,
                      [&](int64_t row) { return left.at(row) <=> right.at(row); });
}

Datum compare_flags(Op op, const Datum& a, const Datum& b) {
  auto numbers = [](const Datum& value) { return check(cp::Cast(value, arrow::uint8()), kDoing); };
  return call(op, numbers(a), numbers(b));
}

}  // namespace

ArrayPtr stored_numbers(const ArrayPtr& column) {
  if (arrow::is_decimal(column->type_id())) {
    auto& type = static_cast<const arrow::DecimalType&>(*column->type());
    auto data = column->data()->Copy();
    data->type = check(arrow::DecimalType::Make(type.id(), type.precision(), 0), kDoing);
    return arrow::MakeArray(data);
  }
  switch (column->type_id()) {
    case Type::HALF_FLOAT:
      return cast(column, arrow::float32());
    case Type::DATE32:
    case Type::TIME32:
      return check(column->View(arrow::int32()), kDoing);
    case Type::DATE64:
    case Type::TIME64:
    case Type::TIMESTAMP:
    case Type::DURATION:
      return check(column->View(arrow::int64()), kDoing);
    default:
      return column;
  }
}

Meaning meaning_of(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::NA:
      return Meaning::kNull;
    case Type::BOOL:
      return Meaning::kBool;
    case Type::DATE32:
    case Type::DATE64:
      return Meaning::kLocalTime;
    case Type::TIMESTAMP:
      return static_cast<const arrow::TimestampType&>(type).timezone().empty() ? Meaning::kLocalTime
                                                                               : Meaning::kInstant;
    case Type::TIME32:
    case Type::TIME64:
      return Meaning::kTimeOfDay;
    case Type::DURATION:
      return Meaning::kDuration;
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
    case Type::FIXED_SIZE_BINARY:
      return Meaning::kBytes;
    default:
      if (arrow::is_base_binary_like(type.id())) return Meaning::kBytes;
      bool is_number = arrow::is_integer(type.id()) || arrow::is_floating(type.id()) ||
                       arrow::is_decimal(type.id());
      return is_number ? Meaning::kNumber : Meaning::kNone;
  }
}

std::optional<Datum> compare(Op op, const Datum& a, const Datum& b) {
  start_compute();
  Meaning left = meaning_of(*a.type()), right = meaning_of(*b.type());
  if (left == Meaning::kNone || right == Meaning::kNone) return std::nullopt;
  bool is_null = left == Meaning::kNull || right == Meaning::kNull;
  if (left != right && !is_null) return std::nullopt;
  if (a.is_scalar() && b.is_scalar()) {
    auto result = compare(op, check(arrow::MakeArrayFromScalar(*a.scalar(), 1), kDoing), b);
    return Datum(check(result->make_array()->GetScalar(0), kDoing));
  }
  if (a.is_scalar()) return compare(mirrored(op), b, a);
  if (is_null || (b.is_scalar() && !b.scalar()->is_valid)) {
    return Datum(check(arrow::MakeArrayOfNull(arrow::boolean(), a.length()), kDoing));
  }
  if (left == Meaning::kBool) return compare_flags(op, a, b);
  if (left == Meaning::kBytes) return compare_bytes(op, a.make_array(), b);
  if (b.is_scalar()) return compare_with_constant(op, a.make_array(), *b.scalar());
  return compare_columns(op, a.make_array(), b.make_array());
}

}  // namespace manta::data
