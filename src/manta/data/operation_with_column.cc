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
  /// `adds`: there must be no column of that name.
  WithColumn(std::string name, Expression value, bool adds)
      : name_(std::move(name)), value_(std::move(value)), adds_(adds) {}

  std::string to_string() const override {
    return str(adds_ ? "add_column(" : "with_column(", name_, ", ", value_.to_string(), ")");
  }
  Json to_json(PlanFunctions&) const override {
    Json json = {{"op", "with_column"}, {"name", name_}, {"expression", value_.to_json()}};
    if (adds_) json["adds"] = true;
    return json;
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_new(before->field_names());
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

  bool repeats() const override { return true; }
  void run(Piece& piece, RowMask& mask, const ColumnNames& live) const override {
    require_new(piece.names);
    if (live && !contains(*live, name_)) return;
    piece.set(name_, evaluate_kept(value_, piece, mask));
  }

 private:
  void require_new(const std::vector<std::string>& names) const {
    if (!adds_ || !contains(names, name_)) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", to_string(), ": there is a column '", name_,
                    "' already; take another name, or with_column to replace it"));
  }

  const std::string name_;
  const Expression value_;
  const bool adds_;
};

}  // namespace

OperationPtr read_with_column(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<WithColumn>(fields.text("name", kLongestName),
                                      Expression::from_json(fields.any("expression")),
                                      fields.has("adds") && fields.boolean("adds"));
}

}  // namespace data

Dataset Dataset::with_column(const std::string& name, const Expression& value) const {
  return then(*this, std::make_shared<data::WithColumn>(name, value, false));
}

Dataset Dataset::add_column(const std::string& name, const Expression& value) const {
  return then(*this, std::make_shared<data::WithColumn>(name, value, true));
}

Dataset Dataset::cast(const std::map<std::string, std::string>& types) const {
  Dataset result = *this;
  for (const auto& [name, type] : types) result = result.with_column(name, col(name).cast(type));
  return result;
}

}  // namespace manta
