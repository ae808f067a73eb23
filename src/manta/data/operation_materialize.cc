#include <arrow/api.h>

#include <mutex>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/row_store_internal.h"
#include "manta/data/stage_internal.h"

namespace manta {
namespace data {
namespace {

/// All rows as they are, kept in a temporary file. The process that called `materialize` has them
/// already; other processes (a data reader, a program that loads the plan) each make them once.
class Materialize final : public MaterialisingOperation {
 public:
  std::string to_string() const override { return "materialize()"; }
  Json to_json(PlanFunctions&) const override { return {{"op", "materialize"}}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  // A later use may want other columns of the rows that are held.
  ColumnNames columns_needed(ColumnNames live) const override {
    return held_rows() ? std::nullopt : live;
  }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    auto held = held_rows();
    return held ? held->rows() : before;
  }
  bool add_bounds(FileBounds&) const override { return false; }

  void run(const AllRows& rows, RowSink& sink) const override {
    while (auto batch = rows.next()) sink.add(batch);
  }

  std::shared_ptr<const StoredRows> held_rows() const override {
    std::lock_guard lock(mutex_);
    return held_;
  }
  void hold(std::shared_ptr<const StoredRows> rows) const {
    std::lock_guard lock(mutex_);
    held_ = std::move(rows);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const StoredRows> held_;
};

}  // namespace

OperationPtr read_materialize(const JsonFields&, const PlanFunctions&) {
  return std::make_shared<Materialize>();
}

// The last stage as it would run, with the rows of the stages before it.
std::shared_ptr<const Plan> run_stages(const std::shared_ptr<const Plan>& plan) {
  return wanted_stage(plan, 0, {.threads = all_processors(), .progress = "materialize"});
}

}  // namespace data

Dataset Dataset::materialize() const {
  auto operation = std::make_shared<data::Materialize>();
  Dataset all = then(*this, operation);
  auto stage = data::run_stages(all.plan());
  operation->hold(data::stored_rows(*stage->source));
  return all;
}

int64_t Dataset::size_bytes() const {
  auto stage = data::run_stages(plan_);
  auto stored = data::stored_rows(*stage->source);
  if (stored && stage->operations.empty()) return stored->bytes();
  int64_t bytes = 0;
  data::Stream stream(stage, {}, {.threads = data::all_processors(), .progress = "size_bytes"});
  while (auto block = stream.next()) bytes += block->bytes;
  return bytes;
}

int64_t Dataset::num_blocks() const {
  return static_cast<int64_t>(data::run_stages(plan_)->source->fragments().size());
}

}  // namespace manta
