// A driver whose run is at an address, for tests that kill it: `remote_job start <storage>
// <batches>` and `remote_job restore <run> <workers>`. Prints the result as JSON.

#include <arrow/api.h>
#include <manta/manta.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "usage.h"

using namespace manta;

namespace {

// Adds up the rows of 64 at a time, with a checkpoint for each batch.
void add_up(const Json& config) {
  int64_t batches = 0, sum = 0;
  if (Checkpoint from = train::get_checkpoint()) {
    CheckpointDict dict = from.to_dict();
    batches = dict.values.at("batches");
    sum = dict.values.at("sum");
  }
  auto shard = train::get_dataset_shard("train");
  int64_t begin = batches;
  for (auto& batch : shard.iter_batches({.global_batch_size = 64})) {
    // This worker's part of the 64 rows that are due.
    auto ids = std::static_pointer_cast<arrow::Int64Array>(batch->GetColumnByName("id"));
    for (int64_t i = 0; i < ids->length(); ++i) {
      if (ids->Value(i) / 64 != batches) throw std::runtime_error("these rows are not due");
    }
    ++batches;
    for (int64_t row = (batches - 1) * 64; row < batches * 64; ++row) sum += row;
    Json values = {{"batches", batches}, {"sum", sum}, {"begin", begin}};
    if (train::get_context().world_rank == 0) {
      train::report(values, Checkpoint::from_dict({values, {}}));
    } else {
      train::report(values);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(config.at("pause_ms").get<int>()));
  }
}

void print(const Result& result) {
  Json begins = Json::array();
  for (const Json& metrics : result.metrics_history) begins.push_back(metrics.at("begin"));
  Json all = {
      {"path", result.path}, {"begins", begins}, {"stored", result.checkpoint.to_dict().values}};
  std::cout << all.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) try {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  const char* text = "remote_job start <storage> <batches> | restore <run> <workers>";
  if (auto done = usage(argc, argv, text, 3, 3)) return *done;
  std::string mode = argv[1];
  if (mode == "start") {
    DataParallelTrainer trainer(
        {.train_loop_per_worker = add_up,
         .train_loop_config = {{"pause_ms", 50}},
         .scaling_config = {.num_workers = 1},
         .run_config = {.name = "job", .storage_path = argv[2], .verbose = false},
         .datasets = {{"train", data::range(std::stoll(argv[3]) * 64)}}});
    print(trainer.fit());
  } else {
    auto trainer = DataParallelTrainer::restore(
        argv[2], {.train_loop_per_worker = add_up,
                  .train_loop_config = Json{{"pause_ms", 0}},
                  .scaling_config = ScalingConfig{.num_workers = std::stoi(argv[3])}});
    print(trainer.fit());
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
