#include <arrow/api.h>
#include <arrow/compute/api.h>

#include "manta/data/compare_internal.h"
#include "manta/data/evaluator_internal.h"
#include "manta/data/exact_number_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using arrow::Type;
using TypePtr = std::shared_ptr<arrow::DataType>;

arrow::TimeUnit::type unit_of_timestamp(const arrow::DataType& type) {
  if (type.id() == Type::DATE32) return arrow::TimeUnit::SECOND;
  if (type.id() == Type::DATE64) return arrow::TimeUnit::MILLI;
  return static_cast<const arrow::TimestampType&>(type).unit();
}

bool is_text_type(const arrow::DataType& type) {
  return arrow::is_string(type.id()) || type.id() == Type::STRING_VIEW;
}

// Null if nothing holds the values of both.
TypePtr common_type(const TypePtr& a, const TypePtr& b) {
  if (a->Equals(*b) || b->id() == Type::NA) return a;
  if (a->id() == Type::NA) return b;
  Meaning meaning = meaning_of(*a);
  if (meaning != meaning_of(*b)) return nullptr;
  switch (meaning) {
    case Meaning::kNumber:
      return arrow::is_integer(a->id()) && arrow::is_integer(b->id()) ? arrow::int64()
                                                                      : arrow::float64();
    case Meaning::kLocalTime:
      return arrow::timestamp(std::max(unit_of_timestamp(*a), unit_of_timestamp(*b)));
    case Meaning::kInstant:
      return arrow::timestamp(std::max(unit_of_timestamp(*a), unit_of_timestamp(*b)),
                              static_cast<const arrow::TimestampType&>(*a).timezone());
    case Meaning::kTimeOfDay:
      return arrow::time64(arrow::TimeUnit::NANO);
    case Meaning::kDuration:
      return arrow::duration(std::max(static_cast<const arrow::DurationType&>(*a).unit(),
                                      static_cast<const arrow::DurationType&>(*b).unit()));
    case Meaning::kBytes:
      return is_text_type(*a) && is_text_type(*b) ? arrow::large_utf8() : arrow::large_binary();
    default:
      return nullptr;
  }
}

// The constant as a value of this type; null if the type does not hold it exactly.
std::shared_ptr<arrow::Scalar> held_in(const arrow::DataType& type, const arrow::Scalar& constant) {
  Meaning meaning = meaning_of(type);
  if (meaning != meaning_of(*constant.type)) return nullptr;
  if (meaning == Meaning::kBytes && is_text_type(type) != is_text_type(*constant.type)) {
    return nullptr;
  }
  if (meaning == Meaning::kNumber) {
    if (type.id() == Type::HALF_FLOAT) return nullptr;
    auto value = arrow::MakeArrayFromScalar(constant, 1);
    if (!value.ok()) return nullptr;
    ExactNumber number = exact_value(**value, 0);
    if (number.kind == ExactNumber::Kind::kFinite) {
      // Does not use a cast: to cast an integer to a decimal, Arrow requires room for all values of
      // the integer's type.
      Floor floor = floor_in(number, type, unit_of(type));
      return floor.exact ? floor.value : nullptr;
    }
    if (!arrow::is_floating(type.id())) return nullptr;
  }
  auto cast = cp::Cast(Datum(constant.GetSharedPtr()), type.GetSharedPtr());
  return cast.ok() ? cast->scalar() : nullptr;
}

}  // namespace

std::vector<Datum> Evaluator::as_one_type(const ExpressionNode& node, std::vector<Datum> values) {
  for (auto& value : values) {
    for (const auto& other : values) value = as_time_beside(value, *other.type());
  }
  TypePtr type = arrow::null();
  for (bool columns : {true, false}) {
    for (auto& value : values) {
      if (value.is_array() != columns) continue;
      if (!columns && value.scalar()->is_valid) {
        if (auto held = held_in(*type, *value.scalar())) {
          value = Datum(std::move(held));
          continue;
        }
      }
      require_same_zones(*this, node, *type, *value.type());
      type = common_type(type, value.type());
      if (!type) {
        throw_types(node, "its values must be of one kind: numbers, texts, times or durations");
      }
    }
  }
  bool rounds = arrow::is_floating(type->id());
  for (auto& value : values) value = rounds ? promote(value, type) : cast(value, type);
  return values;
}

}  // namespace manta::data
