#include "manta/data/dataset.h"

#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {

using data::Plan;
using data::Stream;

namespace {

data::StreamOptions on_all_processors(const char* progress) {
  return {.threads = data::all_processors(), .progress = progress};
}

// For looking at the first rows only.
data::StreamOptions not_far_ahead(const char* progress) {
  return {.threads = 1, .byte_budget = 0, .read_ahead = false, .progress = progress};
}

std::shared_ptr<arrow::Table> to_arrow_table(const Dataset& dataset, const data::Batches& batches) {
  auto schema = batches.empty() ? dataset.schema() : batches[0]->schema();
  return check(arrow::Table::FromRecordBatches(schema, batches), "putting batches together");
}

}  // namespace

namespace data {

std::vector<int64_t> rows_per_fragment(const std::shared_ptr<const Plan>& plan) {
  const auto& fragments = plan->source->fragments();
  std::vector<int64_t> rows(fragments.size(), 0);
  bool known = true;
  for (size_t i = 0; i < rows.size() && known; ++i) {
    std::optional<int64_t> of_fragment = fragments[i].rows;
    for (const auto& operation : plan->operations) {
      of_fragment = operation->rows_after(i, of_fragment);
    }
    known = of_fragment.has_value();
    rows[i] = of_fragment.value_or(0);
  }
  if (known) return rows;
  std::fill(rows.begin(), rows.end(), 0);
  // Without columns: only what filters and functions need is read.
  Stream stream(Dataset(plan).select_columns({}).plan(), {}, on_all_processors("counting rows"));
  while (auto block = stream.next()) {
    rows[static_cast<size_t>(block->window)] += block->batch->num_rows();
  }
  return rows;
}

}  // namespace data

int64_t Dataset::count() const {
  if (auto rows = plan_->known_rows()) return *rows;
  // Without columns: only what filters and functions need is read.
  Stream stream(select_columns({}).plan(), {}, on_all_processors("count"));
  int64_t rows = 0;
  while (auto block = stream.next()) rows += block->batch->num_rows();
  return rows;
}

std::shared_ptr<arrow::Schema> Dataset::schema() const {
  if (auto schema = schema_of(*plan_)) return schema;
  Stream stream(plan_, {}, not_far_ahead("schema"));
  if (auto block = stream.next()) return block->batch->schema();
  throw Error(ErrorKind::kInvalidArgument,
              "the columns of a data set after map_batches are known from its first row, and this "
              "one has no rows; check the filters before it");
}

std::vector<std::string> Dataset::columns() const { return schema()->field_names(); }

std::shared_ptr<arrow::Table> Dataset::take(int64_t n) const {
  data::Batches batches;
  Stream stream(plan_, {}, not_far_ahead("take"));
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
  Stream stream(plan_, {}, on_all_processors("reading rows"));
  while (auto block = stream.next()) batches.push_back(std::move(block->batch));
  return to_arrow_table(*this, batches);
}

data::BatchRange Dataset::iter_batches(const BatchOptions& options) const {
  return data::BatchRange(plan_, options);
}

Json Dataset::to_json() const { return plan_->to_json(); }
Dataset Dataset::from_json(const Json& json) { return Dataset(Plan::from_json(json)); }

}  // namespace manta
