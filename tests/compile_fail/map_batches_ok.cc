// expect-ok
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

// All forms of map_batches, and of named functions.

struct Rows {
  int64_t count = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(count);
  }
};
Batch keep(const Batch& batch) { return batch; }
Batch keep_noexcept(Batch batch) noexcept { return batch; }
Batch first(const Batch& batch, const Rows& rows) { return batch->Slice(0, rows.count); }
Batch first(const Batch& batch) { return batch->Slice(0, 1); }
Batch json(const Batch& batch, const manta::Json& args) { return batch->Slice(0, args.at("n")); }
Batch text(const Batch& batch, std::string) { return batch; }

static const auto named_keep = manta::named("keep", keep);
static const auto named_json = manta::named("json", json);
static const auto named_lambda =
    manta::named("lambda", [](const Batch& batch, const Rows&) { return batch; });

manta::Dataset f(const manta::Dataset& dataset) {
  const manta::MapBatchesOptions options{.batch_size = 3};
  return dataset.map_batches(keep)
      .map_batches(keep, options)
      .map_batches(keep_noexcept, {.batch_size = 2})
      .map_batches([](const Batch& batch) { return batch; })
      .map_batches([](const Batch& batch) { return batch; }, {.batch_size = 2})
      .map_batches(first)
      .map_batches([](const Batch& batch, const Rows&) { return batch; }, {.count = 2})
      .map_batches([](const Batch& batch, const Rows&) { return batch; }, Rows(), options)
      .map_batches(json, {{"n", 1}})
      .map_batches(json, {{"n", 1}}, {.batch_size = 2})
      .map_batches(text, "words", options)
      .map_batches(named_keep)
      .map_batches(named_keep, {.batch_size = 2})
      .map_batches(named_json, {{"n", 1}})
      .map_batches(named_lambda, {.count = 2}, options);
}
