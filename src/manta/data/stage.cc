#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/stage_internal.h"

namespace manta::data {
namespace {

/// What a materialising operation gave: each batch is a fragment. It is never stored, and never
/// leaves the process: a restored or resumed run makes the rows anew.
class MaterialisedSource final : public Source {
 public:
  /// `schema`: null if it is known from the rows only.
  MaterialisedSource(std::string operation, SchemaPtr schema, Batches batches, int64_t rows_decoded)
      : operation_(std::move(operation)),
        schema_(std::move(schema)),
        batches_(std::move(batches)),
        rows_decoded_(rows_decoded) {
    if (!schema_) schema_ = batches_.empty() ? arrow::schema({}) : batches_[0]->schema();
    for (const auto& batch : batches_) fragments_.push_back({batch->num_rows(), batch->num_rows()});
  }

  int64_t rows_decoded() const { return rows_decoded_; }

  std::string_view name() const override { return "materialised"; }
  std::string to_string() override { return "rows of " + operation_; }
  Json to_json() override { return {{"rows_of", operation_}}; }
  std::string why_not_stored() const override { return "its rows are in memory only"; }
  SchemaPtr schema() override { return schema_; }
  const std::vector<Fragment>& fragments() override { return fragments_; }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override {
    return str("part ", fragment, " of the rows of ", operation_);
  }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    Piece piece = to_piece(*batches_[fragment]);
    pick_columns(piece, columns, operation_);
    auto batch = to_batch(std::move(piece));
    for (int64_t row = 0; row < batch->num_rows(); row += piece_rows) {
      take(batch->Slice(row, piece_rows));
    }
  }

 private:
  const std::string operation_;
  SchemaPtr schema_;
  const Batches batches_;
  const int64_t rows_decoded_;
  std::vector<Fragment> fragments_;
};

// The operations before the one at `place`, and only the columns that it needs.
std::shared_ptr<const Plan> stage_before(const std::shared_ptr<const Plan>& plan, size_t place) {
  auto schemas = schemas_of(*plan);
  ColumnUse use = columns_used(*plan);
  auto head = std::make_shared<Plan>(*plan);
  head->operations.resize(place);
  head->part_of = plan;
  // After a function whose columns nobody knows, later operations may name any of them.
  if (!schemas[place]) return head;
  ColumnNames needed = plan->operations[place]->columns_needed(use.live_after[place]);
  if (!needed) return head;
  std::vector<std::string> columns;
  for (const auto& name : schemas[place]->field_names()) {
    if (contains(*needed, name)) columns.push_back(name);
  }
  return Dataset(std::move(head)).select_columns(columns).plan();
}

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
  auto head = last_stage(stage_before(plan, *place), epoch, options, stopping);
  if (!head) return nullptr;
  const auto& operation = dynamic_cast<const MaterialisingOperation&>(*plan->operations[*place]);

  Stream stream(head, {.epoch = epoch}, options);
  bool stopped = false;
  Batches batches = operation.run(
      [&]() -> std::shared_ptr<arrow::RecordBatch> {
        stopped = stopped || (stopping && stopping());
        auto block = stopped ? std::nullopt : stream.next();
        return block ? std::move(block->batch) : nullptr;
      },
      epoch);
  if (stopped) return nullptr;  // what it gave is of some of the rows only
  std::erase_if(batches, [](const auto& batch) { return batch->num_rows() == 0; });

  auto rest = std::make_shared<Plan>();
  SchemaPtr schema = schemas_of(*plan)[*place + 1];
  bool nothing_known = !schema && batches.empty();
  auto source = std::make_shared<MaterialisedSource>(operation.to_string(), std::move(schema),
                                                     std::move(batches), stream.rows_decoded());
  rest->columns = source->schema()->field_names();
  rest->source = std::move(source);
  if (!nothing_known) {  // else there is no row for them, and no column that they could ask for
    rest->operations.assign(plan->operations.begin() + static_cast<std::ptrdiff_t>(*place) + 1,
                            plan->operations.end());
  }
  return rest;
}

std::optional<int64_t> rows_decoded_for(const Source& source) {
  auto* materialised = dynamic_cast<const MaterialisedSource*>(&source);
  if (!materialised) return std::nullopt;
  return materialised->rows_decoded();
}

}  // namespace manta::data
