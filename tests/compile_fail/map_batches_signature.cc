// expect: map_batches needs a function of the form
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

int rows(const Batch& batch) { return static_cast<int>(batch->num_rows()); }

manta::Dataset f(const manta::Dataset& dataset) { return dataset.map_batches(rows); }
