// Reads rows on several nodes, without a framework, so that workers need no connection with each
// other:
//   rows_hosts <storage> <name> <data.parquet> <workers> auto|always|never [pause in ms]
// With every report, each rank prints how many rows it took since the report before, their sum and
// the sum of their squares. A report that is made again after a failure has the same rows.

#include <arrow/api.h>
#include <manta/manta.h>

#include <iostream>
#include <thread>

#include "usage.h"

using namespace manta;

namespace {

void loop(const Json& config) {
  auto shard = train::get_dataset_shard("train");
  int64_t report = 0;
  if (auto checkpoint = train::get_checkpoint()) report = checkpoint.to_dict().values.at("report");
  for (int64_t epoch = shard.epoch(); epoch < 2; ++epoch) {
    int64_t rows = 0, sum = 0, squares = 0, steps = 0;
    auto tell = [&] {
      std::string text = "rank " + std::to_string(train::get_context().world_rank) + " report " +
                         std::to_string(report) + " took " + std::to_string(rows) + " " +
                         std::to_string(sum) + " " + std::to_string(squares) + "\n";
      std::cout << text << std::flush;
      rows = sum = squares = 0;
      CheckpointDict dict;
      dict.values = {{"report", ++report}};
      Json metrics = {{"epoch", epoch}};
      bool writes = train::get_context().world_rank == 0;
      writes ? train::report(metrics, Checkpoint::from_dict(dict)) : train::report(metrics);
    };
    for (const auto& batch : shard.iter_batches({.global_batch_size = 60})) {
      auto ids = std::static_pointer_cast<arrow::Int64Array>(batch->GetColumnByName("id"));
      for (int64_t i = 0; i < ids->length(); ++i) {
        sum += ids->Value(i);
        squares += ids->Value(i) * ids->Value(i);
      }
      rows += batch->num_rows();
      std::this_thread::sleep_for(std::chrono::milliseconds(config.at("pause").get<int>()));
      if (++steps % 10 == 0) tell();
    }
    tell();
  }
}

}  // namespace

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  const char* text = "rows_hosts <storage> <name> <data> <workers> auto|always|never [pause in ms]";
  if (auto done = usage(argc, argv, text, 5, 6)) return *done;
  std::string split = argv[5];
  ScalingConfig scaling{.num_workers = std::stoi(argv[4])};
  if (split == "always") scaling.split_reading = SplitReading::kAlways;
  if (split == "never") scaling.split_reading = SplitReading::kNever;
  RunConfig run{.name = argv[2], .storage_path = argv[1]};
  run.failure_config.max_failures = 5;
  try {
    Dataset rows = data::read_parquet(argv[3]).window_shuffle({.rows = 256, .seed = 3});
    DataParallelTrainer trainer(
        {.train_loop_per_worker = loop,
         .train_loop_config = {{"pause", argc > 6 ? std::stoi(argv[6]) : 0}},
         .scaling_config = scaling,
         .run_config = run,
         .datasets = {{"train", rows}}});
    trainer.fit();
    std::cout << "done" << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << kind_name(error.kind()) << ": " << error.what() << std::endl;
    return 1;
  }
}
