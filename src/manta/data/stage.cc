#include <arrow/api.h>

#include <algorithm>
#include <atomic>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/pass_times_internal.h"
#include "manta/data/row_store_internal.h"
#include "manta/data/stage_internal.h"
#include "manta/data/stop_check_internal.h"
#include "manta/data/wide_query_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kEnoughForDuckDb = 32 << 20;  // mostly DuckDB reads them

/// The rows that a materialising operation gave, in memory or in a temporary file. This source is
/// never stored, and never leaves the process: a restored or resumed run makes the rows anew.
class MaterialisedSource final : public Source {
 public:
  /// `schema`: of all columns, including those that are not needed and that `rows` does not have;
  /// null if only the rows show it.
  MaterialisedSource(std::string operation, SchemaPtr schema,
                     std::shared_ptr<const StoredRows> rows, int64_t rows_decoded)
      : operation_(std::move(operation)),
        rows_(std::move(rows)),
        schema_(schema ? std::move(schema)
                       : (rows_->schema() ? rows_->schema() : arrow::schema({}))),
        rows_decoded_(rows_decoded) {
    for (int64_t rows : rows_->fragments()) fragments_.push_back({rows, rows});
  }

  int64_t rows_decoded() const { return rows_decoded_; }
  const std::shared_ptr<const StoredRows>& rows() const { return rows_; }

  std::string_view name() const override { return "materialised"; }
  std::string to_string() override { return "rows of " + operation_; }
  Json to_json() override { return {{"rows_of", operation_}}; }
  std::string why_not_stored() const override {
    return "its rows are in this process, or in a temporary file, only";
  }
  SchemaPtr schema() override { return schema_; }
  const std::vector<Fragment>& fragments() override { return fragments_; }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override {
    return str("part ", fragment, " of the rows of ", operation_);
  }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    for (const auto& batch : rows_->read(fragment, columns)) {
      for (int64_t row = 0; row < batch->num_rows(); row += piece_rows) {
        take(batch->Slice(row, piece_rows));
      }
    }
  }

 private:
  const std::string operation_;
  const std::shared_ptr<const StoredRows> rows_;
  const SchemaPtr schema_;
  const int64_t rows_decoded_;
  std::vector<Fragment> fragments_;
};

// The plan of the operations before the one at `place`, with only the columns that this one needs.
std::shared_ptr<const Plan> stage_before(const std::shared_ptr<const Plan>& plan, size_t place) {
  auto schemas = schemas_of(*plan);
  ColumnUse use = columns_used(*plan);
  auto head = std::make_shared<Plan>(*plan);
  head->operations.resize(place);
  head->part_of = plan;
  // After a function whose columns are unknown, later operations may name any column.
  if (!schemas[place]) return head;
  ColumnNames needed = plan->operations[place]->columns_needed(use.live_after[place]);
  if (!needed) return head;
  std::vector<std::string> columns;
  for (const auto& name : schemas[place]->field_names()) {
    if (contains(*needed, name)) columns.push_back(name);
  }
  return Dataset(std::move(head)).select_columns(columns).plan();
}

/// The rows that an operation gave, and the number of rows of files they were made from; no rows if
/// it was stopped.
struct Materialised {
  std::shared_ptr<const StoredRows> rows;
  int64_t rows_decoded = 0;
};

/// Runs the materialising operation of a plan at `place` on the rows of the stages before it.
class Materialising {
 public:
  Materialising(const std::shared_ptr<const Plan>& plan, size_t place, int64_t epoch,
                const StreamOptions& options, const std::function<bool()>& stopping)
      : plan_(*plan),
        place_(place),
        operation_(dynamic_cast<const MaterialisingOperation&>(*plan->operations[place])),
        before_(stage_before(plan, place)),
        epoch_(epoch),
        options_(options),
        stopping_(stopping) {}

  Materialised run() const {
    auto head = last_stage(before_, epoch_, options_, stopping_);
    if (!head) return {};
    try {
      return run_on(head, /*in_parts=*/false);
    } catch (const TooLittleMemory& error) {
      if (!operation_.runs_in_parts()) throw;
      log_info(str(operation_.to_string(), " needs more memory than ", operation_.memory_bytes(),
                   " bytes; it begins again, with its rows dealt out to temporary files (",
                   error.what(), ")"));
    }
    return run_on(head, /*in_parts=*/true);
  }

 private:
  Materialised run_on(const std::shared_ptr<const Plan>& head, bool in_parts) const {
    Stream stream(head, {.epoch = epoch_}, read_ahead());
    // The operation's threads use both, too. Once it has stopped, it does not go on.
    std::atomic<bool> stopped = false;
    auto is_stopping = [&] {
      if (!stopped && stopping_ && stopping_()) stopped = true;
      return stopped.load();
    };
    std::atomic<int64_t> reading = 0;
    auto next = [&]() -> std::shared_ptr<arrow::RecordBatch> {
      auto begin = PassClock::now();
      auto block = is_stopping() ? std::nullopt : stream.next();
      reading += nanoseconds_since(begin);
      if (block) count_work(options_.work);
      return block ? std::move(block->batch) : nullptr;
    };
    RowStore store(schemas_of(plan_)[place_ + 1], "the rows of " + operation_.to_string(),
                   options_.work, operation_.rows_of_all(before_->known_rows()));
    auto begin = PassClock::now();
    operation_.run(
        {.next = next,
         .schema = schema_of(*before_),
         .live = columns_used(plan_).live_after[place_],
         .epoch = epoch_,
         .threads = options_.threads,
         .stopping = is_stopping,
         .progress = options_.progress.empty() ? "" : "other rows of " + operation_.to_string(),
         .in_parts = in_parts,
         .work = options_.work},
        store);
    if (is_stopping()) return {};  // its result comes from only some of the rows
    auto rows = store.finish();
    if (options_.times) {
      auto& part = options_.times->of(operation_);
      part.nanoseconds += nanoseconds_since(begin) - reading;
      part.rows += rows->rows();
    }
    return {std::move(rows), stream.rows_decoded()};
  }

  StreamOptions read_ahead() const {
    StreamOptions some = options_;
    if (!options_.progress.empty()) some.progress = operation_.to_string();
    some.read_ahead = operation_.reads_ahead();
    some.consume = {};
    some.coded = operation_.takes_coded();
    some.by_window = false;  // that is for windows after the operation, which needs all rows
    some.part = 0;
    some.parts = 1;
    some.enough_bytes = kEnoughForDuckDb;
    if (int64_t memory = operation_.memory_bytes(); memory > 0) {
      some.byte_budget = std::min(options_.byte_budget, memory / 8);
    }
    return some;
  }

  const Plan& plan_;
  const size_t place_;
  const MaterialisingOperation& operation_;
  const std::shared_ptr<const Plan> before_;
  const int64_t epoch_;
  const StreamOptions& options_;
  const std::function<bool()>& stopping_;
};

}  // namespace

std::shared_ptr<const Plan> first_stage(const std::shared_ptr<const Plan>& plan) {
  auto place = plan->last_materialising();
  return place ? first_stage(stage_before(plan, *place)) : plan;
}

std::shared_ptr<const Plan> last_stage(const std::shared_ptr<const Plan>& plan, int64_t epoch,
                                       const StreamOptions& options,
                                       const std::function<bool()>& stopping) {
  auto place = plan->last_materialising();
  if (!place) return plan;
  const auto& operation = dynamic_cast<const MaterialisingOperation&>(*plan->operations[*place]);
  Materialised made{operation.held_rows()};
  if (!made.rows) made = Materialising(plan, *place, epoch, options, stopping).run();
  if (!made.rows) return nullptr;

  auto rest = std::make_shared<Plan>();
  SchemaPtr schema = schemas_of(*plan)[*place + 1];
  bool nothing_known = !schema && !made.rows->schema();
  auto source = std::make_shared<MaterialisedSource>(operation.to_string(), std::move(schema),
                                                     std::move(made.rows), made.rows_decoded);
  rest->columns = source->schema()->field_names();
  rest->source = std::move(source);
  if (!nothing_known) {  // otherwise there are no rows for them, and no columns that they could ask
                         // for
    rest->operations.assign(plan->operations.begin() + static_cast<std::ptrdiff_t>(*place) + 1,
                            plan->operations.end());
  }
  return rest;
}

std::shared_ptr<const Plan> wanted_stage(const std::shared_ptr<const Plan>& plan, int64_t epoch,
                                         const StreamOptions& options) {
  auto stage = last_stage(plan, epoch, options, StopCheck::current());
  if (stage) return stage;
  throw Error(ErrorKind::kCancelled,
              str("the rows of ", plan->operations[*plan->last_materialising()]->to_string(),
                  " are not made, as nobody wants them any more"));
}

bool stages_depend_on_epoch(const Plan& plan) {
  auto last = plan.last_materialising();
  for (size_t i = 0; last && i <= *last; ++i) {
    auto* operation = plan.operations[i].get();
    if (dynamic_cast<const WindowOperation*>(operation)) return true;
    auto* materialising = dynamic_cast<const MaterialisingOperation*>(operation);
    if (materialising && materialising->depends_on_epoch()) return true;
  }
  return false;
}

std::shared_ptr<const StoredRows> stored_rows(const Source& source) {
  auto* materialised = dynamic_cast<const MaterialisedSource*>(&source);
  return materialised ? materialised->rows() : nullptr;
}

std::optional<int64_t> rows_decoded_for(const Source& source) {
  auto* materialised = dynamic_cast<const MaterialisedSource*>(&source);
  if (!materialised) return std::nullopt;
  return materialised->rows_decoded();
}

}  // namespace manta::data
