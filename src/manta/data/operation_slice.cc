#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

/// The rows [begin, end) of those that an operation on all rows has given, whose fragments have
/// known numbers of rows.
class Slice final : public FlowOperation {
 public:
  Slice(int64_t begin, int64_t end) : begin_(begin), end_(end) {}

  std::string to_string() const override { return str("rows(", begin_, " to ", end_, ")"); }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "slice"}, {"begin", begin_}, {"end", end_}};
  }
  void check_after(const Plan& plan) const override {
    if (begin_ > end_) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("a part cannot begin with row ", begin_, " and end before row ", end_));
    }
    bool all_rows = !plan.operations.empty() &&
                    dynamic_cast<const MaterialisingOperation*>(plan.operations.back().get());
    if (!all_rows) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("in ", to_string(),
                      ": a part of the rows can only be taken right after an "
                      "operation on all rows, such as materialize"));
    }
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const override {
    return std::nullopt;
  }
  bool may_add_rows() const override { return false; }
  bool add_bounds(FileBounds&) const override { return false; }

  std::unique_ptr<Flow> begin(const Place& place) const override {
    int64_t row = 0;
    const auto& fragments = place.plan.source->fragments();
    for (size_t i = 0; i < place.fragment; ++i) row += *fragments[i].rows;
    return std::make_unique<RowsBetween>(*this, row);
  }

 private:
  class RowsBetween final : public Flow {
   public:
    RowsBetween(const Slice& of, int64_t row) : of_(of), row_(row) {}
    void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
      int64_t from = std::max<int64_t>(of_.begin_ - row_, 0);
      int64_t to = std::min(of_.end_ - row_, batch->num_rows());
      row_ += batch->num_rows();
      if (from < to) take(batch->Slice(from, to - from));
    }
    void finish(const TakeBatch&) override {}

   private:
    const Slice& of_;
    int64_t row_;
  };

  const int64_t begin_, end_;
};

// Between these places of the rows.
std::vector<Dataset> cut(const Dataset& dataset, const std::vector<int64_t>& places) {
  std::vector<Dataset> parts;
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    parts.push_back(then(dataset, std::make_shared<Slice>(places[i], places[i + 1])));
  }
  return parts;
}

}  // namespace

OperationPtr read_slice(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<Slice>(fields.integer("begin", 0, kMaxRows),
                                 fields.integer("end", 0, kMaxRows));
}

}  // namespace data

std::vector<Dataset> Dataset::split(int64_t n, const SplitOptions& options) const {
  if (n < 1) throw Error(ErrorKind::kInvalidArgument, str("split needs at least 1 part, not ", n));
  Dataset all = materialize();
  int64_t rows = all.count();
  std::vector<int64_t> places = {0};
  for (int64_t i = 0; i < n; ++i) {
    bool one_more = !options.equal && i < rows % n;
    places.push_back(places.back() + rows / n + (one_more ? 1 : 0));
  }
  return data::cut(all, places);
}

std::vector<Dataset> Dataset::split_at_indices(const std::vector<int64_t>& indices) const {
  if (indices.empty() || indices[0] < 0 || !std::is_sorted(indices.begin(), indices.end())) {
    std::vector<std::string> given;
    for (int64_t index : indices) given.push_back(str(index));
    throw Error(
        ErrorKind::kInvalidArgument,
        str("split_at_indices needs row numbers that are not negative, in rising order, not ", "{",
            data::join(given), "}"));
  }
  Dataset all = materialize();
  int64_t rows = all.count();
  std::vector<int64_t> places = {0};
  for (int64_t index : indices) places.push_back(std::min(index, rows));
  places.push_back(rows);
  return data::cut(all, places);
}

std::vector<Dataset> Dataset::split_proportionately(const std::vector<double>& proportions) const {
  double sum = 0;
  bool positive = !proportions.empty();
  for (double part : proportions) {
    positive = positive && part > 0;
    sum += part;
  }
  if (!positive || !(sum < 1)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("split_proportionately needs parts above 0 that are less than 1 together, as "
                    "the rest is one more part; these are ",
                    sum));
  }
  Dataset all = materialize();
  auto rows = static_cast<double>(all.count());
  std::vector<int64_t> places = {0};
  double together = 0;
  for (double part : proportions) {
    together += part;
    // 0.7 + 0.2 is a little less than 0.9.
    places.push_back(static_cast<int64_t>(std::floor(rows * together + 1e-6)));
  }
  places.push_back(static_cast<int64_t>(rows));
  return data::cut(all, places);
}

}  // namespace manta
