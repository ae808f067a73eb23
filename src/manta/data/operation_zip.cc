#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/wide_internal.h"

namespace manta {
namespace data {
namespace {

class Zip final : public MaterialisingOperation {
 public:
  Zip(std::shared_ptr<const Plan> right, std::string suffix)
      : right_(std::move(right)), suffix_(std::move(suffix)) {}

  std::string to_string() const override { return "zip()"; }
  Json to_json(PlanFunctions& functions) const override {
    return {{"op", "zip"}, {"suffix", suffix_}, {"right", inner_to_json(*right_, functions)}};
  }
  std::vector<std::shared_ptr<const Plan>> inner_plans() const override { return {right_}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    auto right = schema_of(*right_);
    return right ? side_by_side(*before, *right) : nullptr;
  }
  // Names of the right depend on those of the left.
  ColumnNames columns_needed(ColumnNames) const override { return std::nullopt; }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return false; }

  void run(const AllRows& rows, RowSink& sink) const override {
    OtherRows others(right_, rows, memory_bytes());
    BatchPtr left, right;
    int64_t left_rows = 0, right_rows = 0;
    SchemaPtr schema;
    auto refill = [](BatchPtr& batch, int64_t& total, auto&& next) {
      if (batch && batch->num_rows() > 0) return true;
      batch = next();
      if (batch) total += batch->num_rows();
      return batch != nullptr;
    };
    auto next_left = [&] { return rows.next(); };
    auto next_right = [&] { return others.next(); };
    while (true) {
      bool has_left = refill(left, left_rows, next_left);
      bool has_right = refill(right, right_rows, next_right);
      if (!has_left || !has_right) {
        if (rows.stopping && rows.stopping()) return;
        if (!has_left && !has_right) return;
        while (auto more = rows.next()) left_rows += more->num_rows();
        while (auto more = others.next()) right_rows += more->num_rows();
        throw Error(ErrorKind::kInvalidArgument,
                    str("in zip(): the left side has ", left_rows, " rows and the right side ",
                        right_rows, "; both must have the same number"));
      }
      if (!schema) schema = side_by_side(*left->schema(), *right->schema());
      int64_t some = std::min(left->num_rows(), right->num_rows());
      auto columns = left->Slice(0, some)->columns();
      auto beside = right->Slice(0, some);
      columns.insert(columns.end(), beside->columns().begin(), beside->columns().end());
      sink.add(arrow::RecordBatch::Make(schema, some, std::move(columns)));
      left = left->Slice(some);
      right = right->Slice(some);
    }
  }

 private:
  SchemaPtr side_by_side(const arrow::Schema& left, const arrow::Schema& right) const {
    auto fields = left.fields();
    for (const auto& field : right.fields()) {
      bool taken = left.GetFieldIndex(field->name()) >= 0;
      std::string name = field->name() + (taken ? suffix_ : "");
      for (const auto& other : fields) {
        if (other->name() != name) continue;
        throw Error(ErrorKind::kInvalidArgument,
                    str("in zip(): there would be two columns '", name,
                        "'; give another suffix, or drop one of them"));
      }
      fields.push_back(arrow::field(name, field->type()));
    }
    return arrow::schema(fields);
  }

  const std::shared_ptr<const Plan> right_;
  const std::string suffix_;
};

}  // namespace

OperationPtr read_zip(const JsonFields& fields, const PlanFunctions& functions) {
  return std::make_shared<Zip>(inner_from_json(fields, "right", functions),
                               fields.text("suffix", kLongestName));
}

}  // namespace data

Dataset Dataset::zip(const Dataset& right, const ZipOptions& options) const {
  return then(*this, std::make_shared<data::Zip>(right.plan(), options.suffix));
}

}  // namespace manta
