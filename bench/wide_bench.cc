// Measures an operation on all rows of taxi trips, as bench/ray_wide.py and bench/duckdb_wide.py
// do: {"seconds": [...]}, last.
//   wide_bench read|sort|random_shuffle|groupby_mean|join <folder>
// The time from the files until the last row of the result was seen, in batches. `read` is what is
// left of it without an operation: no sort or shuffle that makes all values can take less.

#include <arrow/api.h>
#include <manta/core/init.h>
#include <manta/data/grouped.h>
#include <manta/data/sources.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <string>

#include "bench_clock.h"

using namespace manta;

namespace {

constexpr int kPasses = 3;  // The first warms up.

int64_t see_all(const Dataset& dataset) {
  int64_t rows = 0;
  for (auto& batch : dataset.iter_batches({.batch_size = 65'536})) rows += batch->num_rows();
  return rows;
}

Json seconds_of(const char* what, const std::function<Dataset()>& make) {
  Json all = Json::array();
  for (int pass = 0; pass < kPasses; ++pass) {
    double begin = now_s();
    int64_t rows = see_all(make());
    double seconds = now_s() - begin;
    std::cerr << what << ": " << rows << " rows in " << seconds << " s" << std::endl;
    if (pass > 0) all.push_back(seconds);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  init(argc, argv, {.resources = {.cpus = 2}});
  CLI::App app("Measures operations on all rows of taxi trips");
  std::string what, folder;
  int64_t start_ns = 0;
  app.add_option("what", what)
      ->required()
      ->check(CLI::IsMember({"read", "sort", "random_shuffle", "groupby_mean", "join"}));
  app.add_option("path", folder, "of taxi trips, a folder")->required();
  app.add_option("--start-ns", start_ns, "not needed here");
  CLI11_PARSE(app, argc, argv);
  try {
    auto trips = [&] { return data::read_parquet(folder); };
    auto mean_fare = [&](const char* key) { return trips().groupby(key).mean("fare_amount"); };
    Json seconds;
    if (what == "read") {
      seconds = seconds_of("read", trips);
    } else if (what == "sort") {
      seconds = seconds_of("sort", [&] { return trips().sort("trip_distance"); });
    } else if (what == "random_shuffle") {
      seconds = seconds_of("random_shuffle", [&] { return trips().random_shuffle({.seed = 1}); });
    } else if (what == "groupby_mean") {
      seconds = seconds_of("groupby_mean", [&] { return mean_fare("passenger_count"); });
    } else {
      Dataset by_second = mean_fare("tpep_pickup_datetime").materialize();
      seconds = seconds_of("join", [&] { return trips().join(by_second, "tpep_pickup_datetime"); });
    }
    std::cout << Json{{"seconds", seconds}}.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "wide_bench: " << error.what() << std::endl;
    return 1;
  }
}
