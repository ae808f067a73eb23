#pragma once

#include <arrow/datum.h>

#include <map>
#include <span>
#include <string_view>

#include "manta/data/evaluator_internal.h"

namespace manta::data {

inline constexpr size_t kAnyNumber = 1 << 20;

/// A function that expressions may call. It is one row of a table in one of the files
/// functions_*.cc; the method that users call stands below the table. The type of its values
/// follows from computing it on no rows.
struct ExpressionFunction {
  const char* name;  ///< In JSON and in texts: `lower(a)`.
  size_t least;      ///< The least number of arguments,
  size_t most;       ///< and the most.
  arrow::Datum (*evaluate)(Evaluator& evaluator, const ExpressionNode& node);
};

/// Null if there is none of that name.
const ExpressionFunction* find_function(std::string_view name);
/// All names, for tests.
std::vector<std::string> function_names();

/// The node of a call. Throws Error(kInvalidArgument) if there is no function of that name.
Expression call_function(const char* name, const std::vector<Expression>& arguments);

// ---- The tables.
std::span<const ExpressionFunction> text_functions();
std::span<const ExpressionFunction> time_functions();
std::span<const ExpressionFunction> math_functions();
std::span<const ExpressionFunction> choice_functions();

// ---- For functions.

/// The constant that an argument must be: an integer. `what` names it in the error.
int64_t constant_integer(Evaluator& evaluator, const ExpressionNode& node, size_t index,
                         const char* what);

}  // namespace manta::data
