#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

class DropNa final : public RowOperation {
 public:
  /// No names: all columns, which are not known when the plan is built.
  explicit DropNa(std::vector<std::string> names) : names_(std::move(names)) {}

  std::string to_string() const override { return str("drop_na(", join(names_), ")"); }
  Json to_json(PlanFunctions&) const override { return {{"op", "drop_na"}, {"columns", names_}}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns(names_, before->field_names(), *this);
    return before;
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    if (names_.empty()) return std::nullopt;
    if (!live) return live;
    for (const auto& name : names_) {
      if (!contains(*live, name)) live->push_back(name);
    }
    return live;
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const override {
    return std::nullopt;
  }
  bool add_bounds(FileBounds&) const override { return true; }

  bool repeats() const override { return true; }
  void run(Piece& piece, RowMask& mask, const ColumnNames&) const override {
    require_columns(names_, piece.names, *this);
    for (const auto& name : names_.empty() ? piece.names : names_) {
      mask.keep_valid(*piece.find(name));
    }
  }

 private:
  const std::vector<std::string> names_;
};

}  // namespace

OperationPtr read_drop_na(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<DropNa>(fields.texts("columns", kLongestName));
}

}  // namespace data

Dataset Dataset::drop_na(const std::vector<std::string>& names) const {
  auto schema = schema_of(*plan_);
  return then(*this, std::make_shared<data::DropNa>(names.empty() && schema ? schema->field_names()
                                                                            : names));
}

}  // namespace manta
