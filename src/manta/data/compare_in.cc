#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <algorithm>

#include "manta/data/compare_internal.h"
#include "manta/data/exact_number_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using Scalars = std::vector<std::shared_ptr<arrow::Scalar>>;

constexpr const char* kLookingUp = "looking values up";

Datum equals_each(const Datum& column, const Scalars& constants) {
  Datum result;
  for (const auto& constant : constants) {
    Datum equal = *compare(ExpressionOp::kEqual, column, constant);
    result = result.kind() == Datum::NONE
                 ? equal
                 : check(cp::CallFunction("or_kleene", {result, equal}), kLookingUp);
  }
  return result;
}

// The constant as a value of the column's own type; null if no value of that equals it.
std::shared_ptr<arrow::Scalar> in_type(const arrow::Scalar& constant, const arrow::Array& column,
                                       const arrow::DataType& stored) {
  if (meaning_of(*column.type()) == Meaning::kBytes) {
    auto& bytes = static_cast<const arrow::BaseBinaryScalar&>(constant);
    return check(arrow::MakeScalar(column.type(), bytes.value), kLookingUp);
  }
  ExactNumber number = exact_value(*check(arrow::MakeArrayFromScalar(constant, 1), kLookingUp), 0);
  if (number.kind == ExactNumber::Kind::kNaN) return nullptr;
  Floor floor = floor_in(number, stored, unit_of(*column.type()));
  return floor.exact ? floor.value : nullptr;
}

bool is_zero(const arrow::Scalar& number) {
  auto value = number.CastTo(arrow::float64());
  return value.ok() && static_cast<const arrow::DoubleScalar&>(**value).value == 0;
}

}  // namespace

std::optional<Datum> equals_one_of(const Datum& value, const Scalars& constants) {
  start_compute();
  Meaning meaning = meaning_of(*value.type());
  for (const auto& constant : constants) {
    if (meaning == Meaning::kNone) return std::nullopt;
    if (meaning != Meaning::kNull && meaning_of(*constant->type) != meaning) return std::nullopt;
  }
  auto column = value.is_array()
                    ? value.make_array()
                    : check(arrow::MakeArrayFromScalar(*value.scalar(), 1), kLookingUp);
  auto stored =
      meaning == Meaning::kBytes || meaning == Meaning::kNull ? column : stored_numbers(column);
  bool has_kernel = arrow::is_base_binary_like(stored->type_id()) ||
                    arrow::is_integer(stored->type_id()) || arrow::is_floating(stored->type_id());
  Datum result;
  if (constants.empty()) {
    // Without constants: false where there is a value.
    auto nothing = check(cp::CallFunction("is_valid", {column}), kLookingUp);
    auto zeros = check(cp::CallFunction("xor", {nothing, nothing}), kLookingUp);
    auto none = check(arrow::MakeArrayOfNull(arrow::boolean(), column->length()), kLookingUp);
    result = check(cp::CallFunction("if_else", {nothing, zeros, none}), kLookingUp);
  } else if (!has_kernel) {
    result = equals_each(column, constants);
  } else {
    auto builder = check(arrow::MakeBuilder(stored->type()), kLookingUp);
    for (const auto& constant : constants) {
      auto found = in_type(*constant, *column, *stored->type());
      if (!found) continue;
      check(builder->AppendScalar(*found), kLookingUp);
      // The two zeros are equal, but not to a hash table.
      if (!arrow::is_floating(stored->type_id()) || !is_zero(*found)) continue;
      auto minus = check(cp::CallFunction("negate", {Datum(found)}), kLookingUp);
      check(builder->AppendScalar(*minus.scalar()), kLookingUp);
    }
    cp::SetLookupOptions options(check(builder->Finish(), kLookingUp),
                                 cp::SetLookupOptions::INCONCLUSIVE);
    result = check(cp::CallFunction("is_in", {stored}, &options), kLookingUp);
  }
  if (value.is_array()) return result;
  return Datum(check(result.make_array()->GetScalar(0), kLookingUp));
}

}  // namespace manta::data
