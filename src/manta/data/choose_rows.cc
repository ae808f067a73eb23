#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <optional>

#include "manta/data/choose_rows_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using arrow::Datum;
constexpr const char* kChoosing = "choosing values";

// Nothing if Arrow has no kernel for values of this type; Arrow may use a kernel for a wider type.
std::optional<Datum> by_kernel(const char* function, const std::vector<Datum>& arguments) {
  // Arrow's kernels for unions give wrong values.
  if (arrow::is_nested(arguments.back().type()->id())) return std::nullopt;
  auto result = arrow::compute::CallFunction(function, arguments);
  if (result.status().IsNotImplemented()) return std::nullopt;
  Datum made = check(std::move(result), kChoosing);
  return made.type()->Equals(*arguments.back().type()) ? std::optional(made) : std::nullopt;
}

// `choice_of(row)`: a place in `values`; -1: null.
template <class ChoiceOf>
Datum one_by_one(const std::vector<Datum>& values, int64_t rows, ChoiceOf choice_of) {
  arrow::ArrayVector arrays;
  std::vector<int64_t> first;  // where each begins in the concatenation
  int64_t count = 0;
  for (const auto& value : values) {
    first.push_back(count);
    arrays.push_back(value.is_array()
                         ? value.make_array()
                         : check(arrow::MakeArrayFromScalar(*value.scalar(), 1), kChoosing));
    count += arrays.back()->length();
  }
  auto all = check(arrow::Concatenate(arrays), kChoosing);
  arrow::Int64Builder places;
  check(places.Reserve(rows), kChoosing);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t choice = choice_of(row);
    if (choice < 0) {
      places.UnsafeAppendNull();
      continue;
    }
    auto chosen = static_cast<size_t>(choice);
    places.UnsafeAppend(first[chosen] + (values[chosen].is_array() ? row : 0));
  }
  return Datum(take_rows(*all, *check(places.Finish(), kChoosing)));
}

}  // namespace

Datum choose_rows(const arrow::Int64Array& choices, const std::vector<Datum>& values) {
  std::vector<Datum> arguments = {Datum(choices.data())};
  arguments.insert(arguments.end(), values.begin(), values.end());
  if (auto made = by_kernel("choose", arguments)) return *made;
  return one_by_one(values, choices.length(),
                    [&](int64_t row) { return choices.IsNull(row) ? -1 : choices.Value(row); });
}

Datum if_else_rows(const Datum& condition, const Datum& a, const Datum& b, int64_t rows) {
  if (auto made = by_kernel("if_else", {condition, a, b})) return *made;
  auto array = condition.is_array()
                   ? condition.make_array()
                   : check(arrow::MakeArrayFromScalar(*condition.scalar(), rows), kChoosing);
  const auto& flags = static_cast<const arrow::BooleanArray&>(*array);
  return one_by_one({a, b}, rows, [&](int64_t row) {
    return flags.IsNull(row) ? -1 : flags.Value(row) ? 0 : 1;
  });
}

Datum first_valid_rows(const std::vector<Datum>& values, int64_t rows) {
  if (auto made = by_kernel("coalesce", values)) return *made;
  arrow::ArrayVector arrays;  // null where it is a constant
  for (const auto& value : values)
    arrays.push_back(value.is_array() ? value.make_array() : nullptr);
  return one_by_one(values, rows, [&](int64_t row) -> int64_t {
    for (size_t i = 0; i < values.size(); ++i) {
      bool valid = arrays[i] ? arrays[i]->IsValid(row) : values[i].scalar()->is_valid;
      if (valid) return static_cast<int64_t>(i);
    }
    return static_cast<int64_t>(values.size()) - 1;  // also a null: those of unions have a type
  });
}

}  // namespace manta::data
