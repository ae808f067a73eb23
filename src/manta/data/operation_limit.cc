#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

/// The first rows, if it is known how many of them each fragment gives.
class Limit final : public FlowOperation {
 public:
  /// How many rows of each fragment stay.
  explicit Limit(std::vector<int64_t> rows) : rows_(std::move(rows)) {}

  std::string to_string() const override {
    int64_t all = 0;
    for (int64_t rows : rows_) all += rows;
    return str("limit(", all, ")");
  }
  Json to_json(PlanFunctions&) const override { return {{"op", "limit"}, {"rows", rows_}}; }
  void check_after(const Plan& plan) const override {
    bool fits = !plan.last_materialising() && !plan.window_operation() &&
                plan.source->fragments().size() == rows_.size();
    if (fits) return;
    throw Error(ErrorKind::kInvalidArgument, "a plan whose limit does not fit its row groups");
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t fragment, std::optional<int64_t> before) const override {
    return before ? std::min(*before, rows_[fragment]) : rows_[fragment];
  }
  bool may_add_rows() const override { return false; }
  bool add_bounds(FileBounds&) const override { return true; }

  std::unique_ptr<Flow> begin(const Place& place) const override {
    return std::make_unique<FirstRows>(*this, place);
  }

 private:
  class FirstRows final : public Flow {
   public:
    FirstRows(const Limit& of, const Place& place)
        : of_(of), place_(place), left_(of.rows_[place.fragment]) {}
    void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
      if (left_ == 0) return;
      auto first = batch->Slice(0, left_);
      left_ -= first->num_rows();
      take(std::move(first));
    }
    void finish(const TakeBatch&) override {
      if (left_ == 0) return;
      int64_t all = of_.rows_[place_.fragment];
      throw Error(ErrorKind::kCorrupt,
                  str(place_.describe(), " gives ", all - left_, " rows, not the ", all,
                      " that it gave when ", of_.to_string(), " was built; the data has changed"));
    }

   private:
    const Limit& of_;
    const Place& place_;
    int64_t left_;
  };

  const std::vector<int64_t> rows_;
};

/// The first rows, if it is unknown how many a fragment gives.
class LimitAll final : public MaterialisingOperation {
 public:
  explicit LimitAll(int64_t rows) : rows_(rows) {}

  std::string to_string() const override { return str("limit(", rows_, ")"); }
  Json to_json(PlanFunctions&) const override { return {{"op", "limit_all"}, {"rows", rows_}}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    if (rows_ == 0) return 0;
    return before ? std::optional(std::min(*before, rows_)) : std::nullopt;
  }
  bool add_bounds(FileBounds&) const override { return false; }
  bool reads_ahead() const override { return false; }

  void run(const AllRows& rows, RowSink& sink) const override {
    for (int64_t left = rows_; left > 0;) {
      auto batch = rows.next();
      if (!batch) return;
      sink.add(batch->Slice(0, left));
      left -= std::min(left, batch->num_rows());
    }
  }

 private:
  const int64_t rows_;
};

// How many rows each fragment gives, if that is known without reading.
std::optional<std::vector<int64_t>> known_rows_per_fragment(const Plan& plan) {
  if (plan.last_materialising() || plan.window_operation()) return std::nullopt;
  std::vector<int64_t> rows;
  const auto& fragments = plan.source->fragments();
  for (size_t i = 0; i < fragments.size(); ++i) {
    auto of_fragment = fragments[i].rows;
    for (const auto& operation : plan.operations) {
      of_fragment = operation->rows_after(i, of_fragment);
    }
    if (!of_fragment) return std::nullopt;
    rows.push_back(*of_fragment);
  }
  return rows;
}

}  // namespace

OperationPtr read_limit(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<Limit>(row_counts(fields, "rows"));
}

OperationPtr read_limit_all(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<LimitAll>(fields.integer("rows", 0, kMaxRows));
}

}  // namespace data

Dataset Dataset::limit(int64_t rows) const {
  if (rows < 0 || rows > data::kMaxRows) {
    throw Error(ErrorKind::kInvalidArgument,
                str("limit needs a number of rows from 0 to ", data::kMaxRows, ", not ", rows));
  }
  auto kept = data::known_rows_per_fragment(*plan_);
  if (!kept) return then(*this, std::make_shared<data::LimitAll>(rows));
  for (auto& of_fragment : *kept) {
    of_fragment = std::min(of_fragment, rows);
    rows -= of_fragment;
  }
  return then(*this, std::make_shared<data::Limit>(std::move(*kept)));
}

}  // namespace manta
