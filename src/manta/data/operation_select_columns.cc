#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

class SelectColumns final : public RowOperation {
 public:
  explicit SelectColumns(std::vector<std::string> names) : names_(std::move(names)) {
    require_distinct(names_, to_string());
  }

  std::string to_string() const override { return str("select_columns(", join(names_), ")"); }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "select_columns"}, {"columns", names_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns(names_, before->field_names(), *this);
    arrow::FieldVector fields;
    for (const auto& name : names_) fields.push_back(before->GetFieldByName(name));
    return arrow::schema(fields);
  }
  ColumnNames columns_needed(ColumnNames live) const override { return live ? live : names_; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return true; }

  bool repeats() const override { return true; }
  void run(Piece& piece, RowMask&, const ColumnNames& live) const override {
    if (live) {
      keep_columns(piece, names_, true);
    } else {
      pick_columns(piece, names_, to_string());
    }
  }
  bool only_picks_columns() const override { return true; }

 private:
  const std::vector<std::string> names_;
};

}  // namespace

OperationPtr read_select_columns(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<SelectColumns>(fields.texts("columns", kLongestName));
}

}  // namespace data

Dataset Dataset::select_columns(const std::vector<std::string>& names) const {
  return then(*this, std::make_shared<data::SelectColumns>(names));
}

}  // namespace manta
