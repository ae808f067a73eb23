#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

class DropColumns final : public RowOperation {
 public:
  explicit DropColumns(std::vector<std::string> names) : names_(std::move(names)) {}

  std::string to_string() const override { return str("drop_columns(", join(names_), ")"); }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "drop_columns"}, {"columns", names_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns(names_, before->field_names(), *this);
    arrow::FieldVector fields;
    for (const auto& field : before->fields()) {
      if (!contains(names_, field->name())) fields.push_back(field);
    }
    return arrow::schema(fields);
  }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return true; }

  bool repeats() const override { return true; }
  void run(Piece& piece, RowMask&, const ColumnNames& live) const override {
    // Otherwise the pipeline may have left them out already.
    if (!live) require_columns(names_, piece.names, *this);
    keep_columns(piece, names_, false);
  }
  bool only_picks_columns() const override { return true; }

 private:
  const std::vector<std::string> names_;
};

}  // namespace

OperationPtr read_drop_columns(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<DropColumns>(fields.texts("columns", kLongestName));
}

}  // namespace data

Dataset Dataset::drop_columns(const std::vector<std::string>& names) const {
  return then(*this, std::make_shared<data::DropColumns>(names));
}

}  // namespace manta
