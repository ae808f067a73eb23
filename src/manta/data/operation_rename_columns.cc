#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/unknown_column_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

class RenameColumns final : public RowOperation {
 public:
  explicit RenameColumns(std::map<std::string, std::string> names) : names_(std::move(names)) {}

  std::string to_string() const override {
    std::vector<std::string> pairs;
    for (const auto& [from, to] : names_) pairs.push_back(str(from, " as ", to));
    return str("rename_columns(", join(pairs), ")");
  }
  Json to_json(PlanFunctions&) const override {
    Json from = Json::array(), to = Json::array();
    for (const auto& [old_name, new_name] : names_) {
      from.push_back(old_name);
      to.push_back(new_name);
    }
    return {{"op", "rename_columns"}, {"from", from}, {"to", to}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    auto names = before->field_names();
    rename(names);
    return check(before->WithNames(names), to_string());
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    if (!live) return live;
    ColumnNames needed = std::vector<std::string>();
    for (const auto& name : *live) needed->push_back(name_before(name));
    // A column must exist even if it is not used: a missing one is an error.
    for (const auto& [from, to] : names_) {
      if (!contains(*needed, from)) needed->push_back(from);
    }
    return needed;
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds& bounds) const override {
    for (const auto& [from, to] : names_) {
      bounds.columns.erase(from);
      bounds.columns.erase(to);
    }
    return true;
  }
  bool repeats() const override { return true; }
  void run(Piece& piece, RowMask&, const ColumnNames&) const override { rename(piece.names); }

  bool only_picks_columns() const override { return true; }

 private:
  std::string name_before(const std::string& name) const {
    for (const auto& [from, to] : names_) {
      if (to == name) return from;
    }
    return name;
  }

  void rename(std::vector<std::string>& names) const {
    for (const auto& [from, to] : names_) require_columns({from}, names, *this);
    for (auto& name : names) {
      auto found = names_.find(name);
      if (found != names_.end()) name = found->second;
    }
    require_distinct(names, "the columns after " + to_string());
  }

  const std::map<std::string, std::string> names_;
};

}  // namespace

OperationPtr read_rename_columns(const JsonFields& fields, const PlanFunctions&) {
  auto from = fields.texts("from", kLongestName), to = fields.texts("to", kLongestName);
  if (from.size() != to.size()) fields.fail("to", "as many names as in from");
  require_distinct(from, "the columns of rename_columns");
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < from.size(); ++i) names[from[i]] = to[i];
  return std::make_shared<RenameColumns>(std::move(names));
}

}  // namespace data

Dataset Dataset::rename_columns(const std::map<std::string, std::string>& names) const {
  return then(*this, std::make_shared<data::RenameColumns>(names));
}

}  // namespace manta
