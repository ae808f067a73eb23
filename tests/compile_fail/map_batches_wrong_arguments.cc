// expect: the arguments of map_batches are not of the type that the function takes
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

Batch first(const Batch& batch, const int& rows) { return batch->Slice(0, rows); }

manta::Dataset f(const manta::Dataset& dataset) {
  return dataset.map_batches(first, std::string("ten"));
}
