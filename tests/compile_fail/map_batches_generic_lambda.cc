// expect: map_batches needs a plain function or a lambda whose parameters have types
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

manta::Dataset f(const manta::Dataset& dataset) {
  return dataset.map_batches([](const auto& batch) { return batch; });
}
