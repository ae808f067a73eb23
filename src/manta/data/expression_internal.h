#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/archive_json.h"
#include "manta/data/expression.h"
#include "manta/data/piece_internal.h"

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
  kSecondsBetween,
  kHour,
  kDayOfWeek,
};

/// A uint64_t only if it does not fit into an int64_t.
using Literal = std::variant<int64_t, uint64_t, double, bool, std::string>;

/// Operators inside each other, with what they are applied to. In the JSON of a plan each takes two
/// levels, behind three of the plan, and the last one level: together as many as travel.
inline constexpr int kMaxExpressionDepth = (kMaxJsonNesting - 3 + 1) / 2;

struct ExpressionNode {
  ExpressionOp op = ExpressionOp::kLiteral;
  std::string name;  ///< Of a column, or of the type of a cast.
  Literal literal = int64_t{0};
  /// Two or more of && and ||: a chain of them is one node.
  std::vector<std::shared_ptr<const ExpressionNode>> arguments;
  int depth = 1;  ///< Of the tree below it, itself included.
};

/// Adds the names of all columns that it looks at, each once.
void collect_columns(const ExpressionNode& node, std::vector<std::string>& names);
std::string to_string(const ExpressionNode& node);

/// Makes those of Arrow's functions known that it does not have from the start; again costs
/// nothing.
void start_compute();

/// The expression's value for each row. Throws Error(kNotFound) for a column that is not there and
/// Error(kInvalidArgument) for types that do not go together, naming columns, types and expression.
std::shared_ptr<arrow::Array> evaluate(const Expression& expression, const Piece& piece);

/// "there is no column 'x'; there are 'a', 'b'".
std::string no_such_column(const std::string& name, const std::vector<std::string>& there);
/// Throws Error(kInvalidArgument) if a column is named twice.
void require_distinct(const std::vector<std::string>& names, const std::string& doing);

}  // namespace manta::data
