#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

class Filter final : public RowOperation {
 public:
  explicit Filter(Expression condition) : condition_(std::move(condition)) {}

  std::string to_string() const override { return str("filter(", condition_.to_string(), ")"); }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "filter"}, {"expression", condition_.to_json()}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_condition(*type_of(condition_, *before));
    return before;
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    return with_columns_of(condition_, std::move(live));
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const override {
    return std::nullopt;
  }
  bool add_bounds(FileBounds& bounds) const override {
    bounds.add(condition_);
    return true;
  }

  bool repeats() const override { return true; }
  void run(Piece& piece, RowMask& mask, const ColumnNames&) const override {
    keep(condition_, piece, mask);
  }

 private:
  void require_condition(const arrow::DataType& type) const {
    if (type.id() == arrow::Type::BOOL) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", to_string(), ": the expression is of type ", type.ToString(),
                    ", not a condition; compare it with something"));
  }

  // A row fulfils `a && b` if it fulfils each: cheaper than putting bits of values and of nulls
  // together.
  void keep(const Expression& condition, Piece& piece, RowMask& mask) const {
    const ExpressionNode& node = condition.node();
    if (node.op == ExpressionOp::kAnd) {
      for (const auto& argument : node.arguments) keep(Expression(argument), piece, mask);
      return;
    }
    auto values = evaluate_kept(condition, piece, mask);
    require_condition(*values->type());
    mask.keep_true(*values);
  }

  const Expression condition_;
};

}  // namespace

OperationPtr read_filter(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<Filter>(Expression::from_json(fields.any("expression")));
}

}  // namespace data

Dataset Dataset::filter(const Expression& condition) const {
  return then(*this, std::make_shared<data::Filter>(condition));
}

}  // namespace manta
