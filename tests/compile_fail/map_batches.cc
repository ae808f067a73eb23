// expect: map_batches cannot take a lambda with captures
// expect: map_batches cannot take a lambda with captures
// expect: map_batches needs a plain function or a lambda whose parameters have types
// expect: map_batches needs a function of the form
// expect: with a parameter for arguments, and no arguments
// expect: this type cannot travel to another process
// expect: map_batches was given arguments for a function that takes a batch only
// expect: the arguments of map_batches are not of the type that the function takes
#include <arrow/record_batch.h>
#include <manta/manta.h>

using Batch = std::shared_ptr<arrow::RecordBatch>;

struct Words {
  int* count = nullptr;
};

int rows(const Batch& batch) { return static_cast<int>(batch->num_rows()); }
Batch keep(const Batch& batch) { return batch; }
Batch first(const Batch& batch, const int& rows) { return batch->Slice(0, rows); }
Batch count(const Batch& batch, const Words& words) { return batch->Slice(0, *words.count); }

void f(const manta::Dataset& dataset, int n) {
  dataset.map_batches([n](const Batch& batch) { return batch->Slice(n); });
  dataset.map_batches([n](const Batch& batch) { return batch->Slice(n); }, {.batch_size = 10});
  dataset.map_batches([](const auto& batch) { return batch; });
  dataset.map_batches(rows);
  dataset.map_batches(first);
  dataset.map_batches(count, Words());
  dataset.map_batches(keep, 10);
  dataset.map_batches(first, std::string("ten"));
}
