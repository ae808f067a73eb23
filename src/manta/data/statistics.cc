#include <arrow/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/expression_function_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using Node = std::shared_ptr<const ExpressionNode>;

// `column.is_in({...})`.
bool is_in_constants(const ExpressionNode& node) {
  if (node.op != ExpressionOp::kFunction || std::string_view(node.function->name) != "is_in" ||
      node.arguments[0]->op != ExpressionOp::kColumn) {
    return false;
  }
  return std::all_of(node.arguments.begin() + 1, node.arguments.end(),
                     [](const Node& argument) { return argument->op == ExpressionOp::kLiteral; });
}

void add_bounds(const Node& node, const std::set<std::string>& file_columns,
                std::vector<Bound>& bounds) {
  if (node->op == ExpressionOp::kAnd) {
    for (const auto& argument : node->arguments) add_bounds(argument, file_columns, bounds);
    return;
  }
  if (is_in_constants(*node) && file_columns.contains(node->arguments[0]->name)) {
    bounds.push_back({node->arguments[0]->name, Expression(node)});
    return;
  }
  bool compares = node->op == ExpressionOp::kEqual ||
                  (node->op >= ExpressionOp::kLess && node->op <= ExpressionOp::kGreaterEqual);
  if (!compares) return;
  for (int side : {0, 1}) {
    const auto& column = *node->arguments[static_cast<size_t>(side)];
    const auto& constant = *node->arguments[static_cast<size_t>(1 - side)];
    if (column.op == ExpressionOp::kColumn && constant.op == ExpressionOp::kLiteral &&
        file_columns.contains(column.name)) {
      bounds.push_back({column.name, Expression(node)});
    }
  }
}

// Whether a comparison holds for one value of the column.
bool holds(const ExpressionNode& comparison, ExpressionOp op, const std::string& column,
           const arrow::Scalar& value) {
  auto node = std::make_shared<ExpressionNode>(comparison);
  node->op = op;
  Piece piece;
  piece.rows = 1;
  piece.set(column, check(arrow::MakeArrayFromScalar(value, 1), "reading statistics"));
  auto result = evaluate(Expression(Node(node)), piece);
  return result->IsValid(0) && static_cast<const arrow::BooleanArray&>(*result).Value(0);
}

// Whether no value from smallest to largest fulfils the comparison.
bool none_holds(const Bound& bound, const arrow::Scalar& smallest, const arrow::Scalar& largest) {
  const ExpressionNode& node = bound.comparison.node();
  if (is_in_constants(node)) {
    return std::all_of(node.arguments.begin() + 1, node.arguments.end(), [&](const Node& constant) {
      Bound equal{bound.column, Expression(node.arguments[0]) == Expression(constant)};
      return none_holds(equal, smallest, largest);
    });
  }
  bool column_first = node.arguments[0]->op == ExpressionOp::kColumn;
  auto at = [&](ExpressionOp op, const arrow::Scalar& value) {
    return holds(node, op, bound.column, value);
  };
  auto not_above = column_first ? ExpressionOp::kLessEqual : ExpressionOp::kGreaterEqual;
  auto not_below = column_first ? ExpressionOp::kGreaterEqual : ExpressionOp::kLessEqual;
  if (node.op == ExpressionOp::kEqual) return !at(not_above, smallest) || !at(not_below, largest);
  bool wants_small =
      (node.op == ExpressionOp::kLess || node.op == ExpressionOp::kLessEqual) == column_first;
  return !at(node.op, wants_small ? smallest : largest);
}

// Whether the two can be the smallest and largest value of the column: not if one of them is NaN,
// or if the writer used another order than our comparisons.
bool in_order(const arrow::Scalar& smallest, const arrow::Scalar& largest) {
  auto first = check(arrow::MakeArrayFromScalar(smallest, 1), "reading statistics");
  auto second = check(arrow::MakeArrayFromScalar(largest, 1), "reading statistics");
  auto result = compare(ExpressionOp::kLessEqual, first, second);
  if (!result) return false;
  auto flags = result->make_array();
  return flags->IsValid(0) && static_cast<const arrow::BooleanArray&>(*flags).Value(0);
}

}  // namespace

void FileBounds::add(const Expression& condition) {
  add_bounds(condition.shared_node(), columns, bounds);
}

std::vector<Bound> bounds_of(const Plan& plan) {
  if (plan.part_of) return bounds_of(*plan.part_of);
  FileBounds found;
  found.columns = {plan.columns.begin(), plan.columns.end()};
  for (const auto& operation : plan.operations) {
    if (!operation->add_bounds(found)) break;
  }
  return found.bounds;
}

bool excludes(const Bound& bound, const parquet::Statistics& statistics) {
  if (!statistics.HasMinMax()) return false;
  try {
    std::shared_ptr<arrow::Scalar> smallest, largest;
    if (!parquet::arrow::StatisticsAsScalars(statistics, &smallest, &largest).ok()) return false;
    return in_order(*smallest, *largest) && none_holds(bound, *smallest, *largest);
  } catch (const Error&) {
    return false;  // statistics of a type that cannot be compared
  }
}

bool excluded(const std::vector<Bound>& bounds, const parquet::FileMetaData& footer,
              int row_group_number) {
  auto row_group = footer.RowGroup(row_group_number);
  for (const auto& bound : bounds) {
    int index = footer.schema()->ColumnIndex(bound.column);
    // A name with a dot may also be the path of a nested column.
    if (index < 0 || footer.schema()->Column(index)->path()->ToDotVector().size() != 1) continue;
    try {
      auto chunk = row_group->ColumnChunk(index);
      auto statistics = chunk->is_stats_set() ? chunk->statistics() : nullptr;
      if (statistics && excludes(bound, *statistics)) return true;
    } catch (const parquet::ParquetException&) {
      continue;  // damaged statistics: reading the rows will find the error
    }
  }
  return false;
}

}  // namespace manta::data
