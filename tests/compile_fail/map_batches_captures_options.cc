// expect: map_batches cannot take a lambda with captures
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

manta::Dataset f(const manta::Dataset& dataset, int n) {
  return dataset.map_batches([n](const Batch& batch) { return batch->Slice(n); },
                             {.batch_size = 10});
}
