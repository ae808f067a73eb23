// expect: map_batches was given arguments for a function that takes a batch only
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

Batch keep(const Batch& batch) { return batch; }

manta::Dataset f(const manta::Dataset& dataset) { return dataset.map_batches(keep, 10); }
