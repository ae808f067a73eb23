// Measures training, as bench/ray_train.py and bench/ray_data.py do for Ray: prints one JSON
// object, last.
//   training_bench make <file> --rows N --row-group N --seed N  writes taxi data
//   training_bench train|bare|ingest|ingest-peak <file>         see taxi_figures.h
//   training_bench fit|checkpoint|checkpoint-slow               see run_figures.h
//   training_bench kill|crash|cut <file>                        likewise
//   training_bench report|allreduce|commit                      see loop_figures.h

#include <manta/manta.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>

#include "loop_figures.h"
#include "run_figures.h"
#include "taxi_data.h"
#include "taxi_figures.h"

int main(int argc, char** argv) {
  // The bare loop has no processes beside it, and must have no part of Manta running.
  bool bare = argc > 1 && std::strcmp(argv[1], "bare") == 0;
  if (!bare) manta::init(argc, argv, {.resources = {.cpus = 2}});
  const std::set<std::string> of_taxi = {"train", "bare", "ingest", "ingest-peak"};
  const std::set<std::string> of_runs = {"fit", "kill",       "crash",
                                         "cut", "checkpoint", "checkpoint-slow"};
  const std::set<std::string> of_loops = {"report", "allreduce", "commit"};
  CLI::App app("Measures training");
  std::string what;
  TaxiBench taxi;
  TaxiOptions trips;
  LoopBench loop;
  int64_t start_ns = 0;
  app.add_option("what", what, "make, a figure of the taxi example or one of a run")->required();
  app.add_option("file", taxi.file, "of taxi trips, or a folder of such files");
  app.add_option("--rows", taxi.rows, "of an epoch at most, or to make");
  app.add_option("--row-group", trips.row_group_rows, "rows of each, to make");
  app.add_option("--seed", trips.seed, "of the trips to make");
  app.add_option("--batch", taxi.batch);
  app.add_option("--workers", taxi.workers);
  app.add_flag("--map-batches", taxi.map_batches, "adds a function that changes nothing");
  app.add_flag("--in-step", taxi.in_step, "bare loops wait for each other after each step");
  app.add_option("--bytes", loop.bytes, "of an allreduce");
  app.add_option("--backend", loop.backend, "of the process group");
  app.add_flag("--fsync", loop.fsync, "waits for the disk before a checkpoint is committed");
  app.add_option("--start-ns", start_ns, "CLOCK_MONOTONIC when this process was spawned");
  CLI11_PARSE(app, argc, argv);
  try {
    manta::Json figures;
    if (what == "make") {
      trips.rows = taxi.rows;
      write_taxi_data(taxi.file, trips);
    } else if (of_taxi.contains(what)) {
      figures = taxi_figures(what, taxi);
    } else if (of_runs.contains(what)) {
      figures = run_figures(what, taxi.file, start_ns);
    } else if (of_loops.contains(what)) {
      loop.workers = taxi.workers;
      figures = loop_figures(what, loop);
    } else {
      throw std::invalid_argument("nothing of that name to measure");
    }
    std::cout << figures.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "training_bench " << what << ": " << error.what() << std::endl;
    return 1;
  }
}
