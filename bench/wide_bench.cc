// Measures operations on all rows of taxi trips, as bench/ray_wide.py and bench/duckdb_wide.py do:
//   wide_bench <folder>    {"sort_s": [...], "random_shuffle_s": [...], "groupby_mean_s": [...],
//   "join_s": [...]}
// Each figure is the time from the files until the last row of the result was seen, in batches.

#include <arrow/api.h>
#include <manta/manta.h>

#include <chrono>
#include <functional>
#include <iostream>

#include "manta/base/json.h"

using namespace manta;  // NOLINT

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
    auto begin = std::chrono::steady_clock::now();
    int64_t rows = see_all(make());
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::cerr << what << ": " << rows << " rows in " << seconds << " s" << std::endl;
    if (pass > 0) all.push_back(seconds);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  init(argc, argv, {.resources = {.cpus = 2}});
  std::string folder = argv[1];
  auto trips = [&] { return data::read_parquet(folder); };
  Json figures;
  figures["sort_s"] = seconds_of("sort", [&] { return trips().sort("trip_distance"); });
  figures["random_shuffle_s"] =
      seconds_of("random_shuffle", [&] { return trips().random_shuffle({.seed = 1}); });
  figures["groupby_mean_s"] =
      seconds_of("groupby", [&] { return trips().groupby("passenger_count").mean("fare_amount"); });
  Dataset seconds = trips().groupby("tpep_pickup_datetime").mean("fare_amount").materialize();
  figures["join_s"] =
      seconds_of("join", [&] { return trips().join(seconds, "tpep_pickup_datetime"); });
  std::cout << figures.dump() << std::endl;
}
