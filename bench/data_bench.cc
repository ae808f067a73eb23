// Measures passes over taxi trips, each in rows a second: {"rows_per_s": [...]}, last.
//   data_bench pass <path> [--window-shuffle]   all rows, filtered, in batches of 65,536
//   data_bench floats <path>                    materialised trips as float tensors, batches of
//   4,096 data_bench fit <path>                       StandardScaler's fit on three columns
//   data_bench sort <path>                      all columns, by the distance

#include <arrow/api.h>
#include <manta/manta.h>
#include <manta/torch.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <string>

#include "bench_clock.h"

using namespace manta;

namespace {

constexpr int kPasses = 4;  // the first warms up
const std::vector<std::string> kNumbers = {"trip_distance", "fare_amount", "tip_amount"};

Json rates_of(const std::function<int64_t()>& pass) {
  Json rates = Json::array();
  for (int i = 0; i < kPasses; ++i) {
    double start = now_s();
    int64_t rows = pass();
    double seconds = now_s() - start;
    std::cerr << rows << " rows in " << seconds << " s" << std::endl;
    if (i > 0) rates.push_back(static_cast<double>(rows) / seconds);
  }
  return rates;
}

int64_t see_all(const Dataset& dataset) {
  int64_t rows = 0;
  for (auto& batch : dataset.iter_batches({.batch_size = 65'536})) rows += batch->num_rows();
  return rows;
}

// Six columns of numbers, in memory that is mapped.
int64_t see_floats(const Dataset& numbers, const std::vector<std::string>& names) {
  int64_t rows = 0;
  for (auto& batch : iter_torch_batches(numbers, {.batch_size = 4096})) {
    rows += batch.columns(names).size(0);
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  init(argc, argv, {.resources = {.cpus = 2}});
  torch::set_num_threads(1);
  CLI::App app("Measures passes over taxi trips");
  std::string what, path;
  bool window_shuffle = false;
  int64_t start_ns = 0;
  app.add_option("what", what)->required()->check(CLI::IsMember({"pass", "floats", "fit", "sort"}));
  app.add_option("path", path, "of taxi trips, a file or a folder")->required();
  app.add_flag("--window-shuffle", window_shuffle, "of a pass: in random order");
  app.add_option("--start-ns", start_ns, "not needed here");
  CLI11_PARSE(app, argc, argv);
  try {
    Dataset trips = data::read_parquet(path);
    Json rates;
    if (what == "pass") {
      Dataset some = trips.filter(col("trip_distance") < 100 && col("fare_amount") < 1000);
      if (window_shuffle) some = some.window_shuffle({.seed = 1});
      rates = rates_of([&] { return see_all(some); });
    } else if (what == "floats") {
      std::vector<std::string> names = kNumbers;
      names.insert(names.end(), {"passenger_count", "payment_type", "PULocationID"});
      Dataset numbers = trips.select_columns(names).drop_na();
      for (const auto& name : names) numbers = numbers.with_column(name, col(name).cast("float32"));
      numbers = numbers.materialize();
      rates = rates_of([&] { return see_floats(numbers, names); });
    } else if (what == "fit") {
      int64_t rows = trips.count();
      rates = rates_of([&] {
        StandardScaler(kNumbers).fit(trips);
        return rows;
      });
    } else {
      rates = rates_of([&] { return see_all(trips.sort("trip_distance")); });
    }
    std::cout << Json{{"rows_per_s", rates}}.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "data_bench: " << error.what() << std::endl;
    return 1;
  }
}
