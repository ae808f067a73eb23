// expect: with a parameter for arguments, and no arguments
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

Batch first(const Batch& batch, const int& rows) { return batch->Slice(0, rows); }

manta::Dataset f(const manta::Dataset& dataset) { return dataset.map_batches(first); }
