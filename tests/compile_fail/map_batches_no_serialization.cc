// expect: this type cannot travel to another process
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

struct Words {
  int* count = nullptr;
};
Batch first(const Batch& batch, const Words& words) { return batch->Slice(0, *words.count); }

manta::Dataset f(const manta::Dataset& dataset) { return dataset.map_batches(first, Words()); }
