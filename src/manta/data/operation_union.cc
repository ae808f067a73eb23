#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plan_internal.h"
#include "manta/data/wide_internal.h"

namespace manta {
namespace data {
namespace {

constexpr size_t kMostUnited = 1024;

class Union final : public MaterialisingOperation {
 public:
  explicit Union(std::vector<std::shared_ptr<const Plan>> others) : others_(std::move(others)) {}

  std::string to_string() const override {
    return str("union_with(", others_.size(), others_.size() == 1 ? " data set)" : " data sets)");
  }
  Json to_json(PlanFunctions& functions) const override {
    Json others = Json::array();
    for (const auto& plan : others_) {
      others.push_back({{"plan", inner_to_json(*plan, functions)}});
    }
    return {{"op", "union"}, {"others", std::move(others)}};
  }
  std::vector<std::shared_ptr<const Plan>> inner_plans() const override { return others_; }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    for (size_t i = 0; i < others_.size(); ++i) {
      if (auto schema = schema_of(*others_[i])) require_same(*before, *schema, i);
    }
    return before;
  }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    for (const auto& plan : others_) {
      auto rows = before ? plan->known_rows() : std::nullopt;
      before = rows ? std::optional(*before + *rows) : std::nullopt;
    }
    return before;
  }
  bool add_bounds(FileBounds&) const override { return false; }

  void run(const AllRows& rows, RowSink& sink) const override {
    SchemaPtr schema;
    while (auto batch = rows.next()) {
      schema = batch->schema();
      sink.add(batch);
    }
    if (!schema) schema = rows.schema;
    for (size_t i = 0; i < others_.size(); ++i) {
      auto plan = others_[i];
      // The columns that are used later; all columns if those of this plan are unknown.
      if (rows.live && schema_of(*plan)) {
        plan = Dataset(plan).select_columns(in_order(*schema_of(*plan), *rows.live)).plan();
      }
      OtherRows others(plan, rows, memory_bytes());
      while (auto batch = others.next()) {
        if (!schema) schema = batch->schema();
        require_same(*schema, *batch->schema(), i);
        sink.add(batch);
      }
    }
  }

 private:
  static std::vector<std::string> in_order(const arrow::Schema& schema,
                                           const std::vector<std::string>& names) {
    std::vector<std::string> there;
    for (const auto& name : schema.field_names()) {
      if (contains(names, name)) there.push_back(name);
    }
    return there;
  }
  void require_same(const arrow::Schema& first, const arrow::Schema& other, size_t index) const {
    if (have_same_columns(first, other)) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", to_string(), ": data set ", index, " has the columns {",
                    describe_columns(other), "}, not {", describe_columns(first),
                    "} as this one; select, rename or cast them first"));
  }

  const std::vector<std::shared_ptr<const Plan>> others_;
};

}  // namespace

OperationPtr read_union(const JsonFields& fields, const PlanFunctions& functions) {
  size_t count = fields.array("others").size();
  if (count < 1 || count > kMostUnited) fields.fail("others", "between 1 and 1024 data sets");
  std::vector<std::shared_ptr<const Plan>> others;
  for (size_t i = 0; i < count; ++i) {
    others.push_back(inner_from_json(fields.element("others", i), "plan", functions));
  }
  return std::make_shared<Union>(std::move(others));
}

}  // namespace data

Dataset Dataset::union_with(const std::vector<Dataset>& others) const {
  if (others.empty() || others.size() > data::kMostUnited) {
    throw Error(ErrorKind::kInvalidArgument,
                str("union_with needs between 1 and ", data::kMostUnited, " data sets, not ",
                    others.size()));
  }
  std::vector<std::shared_ptr<const data::Plan>> plans;
  for (const auto& other : others) plans.push_back(other.plan());
  return then(*this, std::make_shared<data::Union>(std::move(plans)));
}

}  // namespace manta
