#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/archive_json.h"
#include "manta/data/expression.h"
#include "manta/data/piece_internal.h"
#include "manta/data/unknown_column_internal.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace manta::data {

enum class ExpressionOp {
  kColumn,
  kLiteral,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kNegate,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kNot,
  kIsNull,
  kIsValid,
  kCast,
  kFunction,  ///< A function of the table in expression_function_internal.h.
};

struct ExpressionFunction;

/// A number of units of time, of which there are `per_second` in a second (1 to 10^9).
struct DurationLiteral {
  int64_t count = 0;
  int64_t per_second = 1;

  bool operator==(const DurationLiteral&) const = default;
};

/// A uint64_t only if it does not fit into an int64_t.
using Literal = std::variant<int64_t, uint64_t, double, bool, std::string, DurationLiteral>;

/// The deepest nesting of operators, including their operands. In a plan's JSON each operator takes
/// two levels, after three levels of the plan, and the innermost operand takes one: together as
/// many as can be sent.
inline constexpr int kMaxExpressionDepth = (kMaxJsonNesting - 3 + 1) / 2;

struct ExpressionNode {
  ExpressionOp op = ExpressionOp::kLiteral;
  std::string name;                              ///< Name of a column, or of a cast's type.
  const ExpressionFunction* function = nullptr;  ///< For kFunction.
  Literal literal = int64_t{0};
  /// Two or more of && and ||: a chain of them is one node.
  std::vector<std::shared_ptr<const ExpressionNode>> arguments;
  int depth = 1;  ///< The depth of its tree, including itself.
};

/// Adds the names of all columns that it reads, each once.
void collect_columns(const ExpressionNode& node, std::vector<std::string>& names);
std::string to_string(const ExpressionNode& node);

/// The type of that name: "int32", "timestamp[us, tz=UTC]", "decimal128(10, 2)". Throws
/// Error(kInvalidArgument), which begins with `doing` and lists the known names.
std::shared_ptr<arrow::DataType> type_by_name(const std::string& name, const std::string& doing);

/// The same; null if there is none of that name.
std::shared_ptr<arrow::DataType> find_type(const std::string& name);
/// Their names, for errors.
std::string known_types();
/// The name by which `find_type` finds the type; if there is none, Arrow's name.
std::string name_of_type(const arrow::DataType& type);

/// Registers the Arrow functions that are not there from the start. A second call costs nothing.
void start_compute();

/// The expression's value for each row. Throws Error(kNotFound) for a column that is not there and
/// Error(kInvalidArgument) for types that do not go together, naming columns, types and expression.
std::shared_ptr<arrow::Array> evaluate(const Expression& expression, const Piece& piece);

}  // namespace manta::data
