#include "manta/data/dataset.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <random>
#include <thread>

#include "manta/base/error.h"
#include "manta/data/expression_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/io/arrow_status.h"

namespace manta {

using data::Operation;
using data::OperationKind;
using data::Plan;
using data::Stream;

namespace {

Dataset append(const Dataset& dataset, Operation operation) {
  schema_after(operation, schema_of(*dataset.plan()));
  auto plan = std::make_shared<Plan>(*dataset.plan());
  plan->operations.push_back(std::move(operation));
  return Dataset(std::move(plan));
}

uint64_t draw_seed() {
  std::random_device device;
  // Below 2^53, so that every reader of JSON gets it right.
  return (uint64_t{device()} << 21) ^ device();
}

data::StreamOptions on_all_processors() {
  return {.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))};
}

// For a look at the first rows.
constexpr data::StreamOptions kNotFarAhead = {.threads = 1, .byte_budget = 0};

// The plan without columns, for counting.
std::shared_ptr<const Plan> rows_only(const Plan& plan) {
  auto counting = std::make_shared<Plan>(plan);
  Operation select;
  select.kind = OperationKind::kSelect;
  counting->operations.push_back(std::move(select));
  return counting;
}

bool keeps_rows(const Operation& operation) {
  return operation.kind == OperationKind::kWithColumn || operation.kind == OperationKind::kSelect ||
         operation.kind == OperationKind::kDrop || operation.kind == OperationKind::kWindowShuffle;
}

std::vector<int64_t> rows_per_window(const Plan& plan) {
  std::vector<int64_t> rows(plan.source->fragments().size(), 0);
  if (std::all_of(plan.operations.begin(), plan.operations.end(), keeps_rows)) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = plan.source->fragments()[i].rows;
    return rows;
  }
  Stream stream(rows_only(plan), {}, on_all_processors());
  while (auto block = stream.next()) {
    rows[static_cast<size_t>(block->window)] += block->batch->num_rows();
  }
  return rows;
}

std::pair<Dataset, Dataset> split(const Dataset& dataset, const std::vector<int64_t>& rows,
                                  int64_t test_rows, const TrainTestSplitOptions& options) {
  int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  if (test_rows < 1 || test_rows >= all) {
    throw Error(ErrorKind::kInvalidArgument,
                str("train_test_split: ", test_rows, " test rows of ", all,
                    " leave one of the parts empty; choose another test_size"));
  }
  data::Split part;
  part.shuffle = options.shuffle;
  part.seed = options.seed ? *options.seed : draw_seed();
  part.rows = rows;
  part.test_rows =
      options.shuffle ? data::allot(rows, test_rows) : data::last_rows(rows, test_rows);
  auto make = [&](bool test) {
    part.test = test;
    Operation operation;
    operation.kind = OperationKind::kSplit;
    operation.split = std::make_shared<data::Split>(part);
    return append(dataset, std::move(operation));
  };
  return {make(false), make(true)};
}

void require_no_shuffle(const Plan& plan, const std::string& what, const std::string& advice) {
  if (plan.has(OperationKind::kWindowShuffle)) {
    throw Error(ErrorKind::kInvalidArgument,
                str(what, " after window_shuffle is not possible: ", advice));
  }
}

std::shared_ptr<arrow::Table> to_arrow_table(const Dataset& dataset, const data::Batches& batches) {
  auto schema = batches.empty() ? dataset.schema() : batches[0]->schema();
  return check(arrow::Table::FromRecordBatches(schema, batches), "putting batches together");
}

}  // namespace

namespace data {

Dataset read_parquet(const std::string& path, const ReadParquetOptions& options) {
  return read_parquet(std::vector<std::string>{path}, options);
}

Dataset read_parquet(const std::vector<std::string>& paths, const ReadParquetOptions& options) {
  auto plan = std::make_shared<Plan>();
  plan->source = std::make_shared<Source>(paths, options.columns);
  plan->columns = plan->source->schema()->field_names();
  return Dataset(std::move(plan));
}

}  // namespace data

Dataset Dataset::filter(const Expression& condition) const {
  Operation operation;
  operation.kind = OperationKind::kFilter;
  operation.expression = condition;
  return append(*this, std::move(operation));
}

Dataset Dataset::with_column(const std::string& name, const Expression& value) const {
  Operation operation;
  operation.kind = OperationKind::kWithColumn;
  operation.name = name;
  operation.expression = value;
  return append(*this, std::move(operation));
}

Dataset Dataset::select_columns(const std::vector<std::string>& names) const {
  Operation operation;
  operation.kind = OperationKind::kSelect;
  operation.columns = names;
  return append(*this, std::move(operation));
}

Dataset Dataset::drop_columns(const std::vector<std::string>& names) const {
  Operation operation;
  operation.kind = OperationKind::kDrop;
  operation.columns = names;
  return append(*this, std::move(operation));
}

Dataset Dataset::drop_na(const std::vector<std::string>& names) const {
  Operation operation;
  operation.kind = OperationKind::kDropNa;
  operation.columns = names;
  auto schema = schema_of(*plan_);
  if (names.empty() && schema) operation.columns = schema->field_names();
  return append(*this, std::move(operation));
}

Dataset Dataset::map_batches(data::BatchFunction function, const MapBatchesOptions& options) const {
  if (!function || options.batch_size < 1) {
    throw Error(ErrorKind::kInvalidArgument,
                str("map_batches needs a function and a batch_size of at least 1, not ",
                    options.batch_size));
  }
  Operation operation;
  operation.kind = OperationKind::kMapBatches;
  operation.function = function;
  operation.rows = options.batch_size;
  return append(*this, std::move(operation));
}

Dataset Dataset::window_shuffle(const WindowShuffleOptions& options) const {
  require_no_shuffle(*plan_, "a second window_shuffle", "shuffle once, with larger windows");
  if (options.rows < 1) {
    throw Error(ErrorKind::kInvalidArgument,
                str("window_shuffle needs rows of at least 1, not ", options.rows));
  }
  Operation operation;
  operation.kind = OperationKind::kWindowShuffle;
  operation.rows = options.rows;
  operation.seed = options.seed ? *options.seed : draw_seed();
  return append(*this, std::move(operation));
}

std::pair<Dataset, Dataset> Dataset::split_fraction(double fraction,
                                                    const TrainTestSplitOptions& options) const {
  if (!(fraction > 0 && fraction < 1)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("train_test_split: a test_size of ", fraction,
                    " is not between 0 and 1; give a fraction, or a number of rows as an integer"));
  }
  require_no_shuffle(*plan_, "train_test_split", "split first, then shuffle the train part");
  auto rows = rows_per_window(*plan_);
  auto all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  auto test_rows = static_cast<int64_t>(std::ceil(fraction * static_cast<double>(all)));
  return split(*this, rows, test_rows, options);
}

std::pair<Dataset, Dataset> Dataset::split_rows(int64_t rows,
                                                const TrainTestSplitOptions& options) const {
  require_no_shuffle(*plan_, "train_test_split", "split first, then shuffle the train part");
  return split(*this, rows_per_window(*plan_), rows, options);
}

int64_t Dataset::count() const {
  auto rows = rows_per_window(*plan_);
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

std::shared_ptr<arrow::Schema> Dataset::schema() const {
  if (auto schema = schema_of(*plan_)) return schema;
  Stream stream(plan_, {}, kNotFarAhead);
  if (auto block = stream.next()) return block->batch->schema();
  throw Error(ErrorKind::kInvalidArgument,
              "the columns of a data set after map_batches are known from its first row, and this "
              "one has no rows; check the filters before it");
}

std::vector<std::string> Dataset::columns() const { return schema()->field_names(); }

std::shared_ptr<arrow::Table> Dataset::take(int64_t n) const {
  data::Batches batches;
  Stream stream(plan_, {}, kNotFarAhead);
  while (n > 0) {
    auto block = stream.next();
    if (!block) break;
    batches.push_back(block->batch->Slice(0, n));
    n -= batches.back()->num_rows();
  }
  return to_arrow_table(*this, batches);
}

std::shared_ptr<arrow::Table> Dataset::to_table() const {
  data::Batches batches;
  Stream stream(plan_, {}, on_all_processors());
  while (auto block = stream.next()) batches.push_back(std::move(block->batch));
  return to_arrow_table(*this, batches);
}

data::BatchRange Dataset::iter_batches(const BatchOptions& options) const {
  return data::BatchRange(plan_, options);
}

Json Dataset::to_json() const { return plan_->to_json(); }
Dataset Dataset::from_json(const Json& json) { return Dataset(Plan::from_json(json)); }

}  // namespace manta
