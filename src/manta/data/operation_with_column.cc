#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

class WithColumn final : public RowOperation {
 public:
  WithColumn(std::string name, Expression value)
      : name_(std::move(name)), value_(std::move(value)) {}

  std::string to_string() const override {
    return str("with_column(", name_, ", ", value_.to_string(), ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "with_column"}, {"name", name_}, {"expression", value_.to_json()}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    auto field = arrow::field(name_, type_of(value_, *before));
    int index = before->GetFieldIndex(name_);
    auto result =
        index < 0 ? before->AddField(before->num_fields(), field) : before->SetField(index, field);
    return check(std::move(result), to_string());
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    if (!live || !contains(*live, name_)) return live;
    std::erase(*live, name_);
    return with_columns_of(value_, std::move(live));
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds& bounds) const override {
    bounds.columns.erase(name_);
    return true;
  }

  void run(Piece& piece, RowMask& mask, const ColumnNames& live) const override {
    if (live && !contains(*live, name_)) return;
    piece.set(name_, evaluate_kept(value_, piece, mask));
  }

 private:
  const std::string name_;
  const Expression value_;
};

}  // namespace

OperationPtr read_with_column(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<WithColumn>(fields.text("name", kLongestName),
                                      Expression::from_json(fields.any("expression")));
}

}  // namespace data

Dataset Dataset::with_column(const std::string& name, const Expression& value) const {
  return then(*this, std::make_shared<data::WithColumn>(name, value));
}

}  // namespace manta
