// Measures preprocessors on the taxi trips, as ray_preprocess.py does: prints one JSON object,
// last.
//   preprocess_bench <file or folder>
// Seconds of each run after a first one, from the files to what was learned, or to all rows in
// memory; and the time of one row.

#include <arrow/api.h>
#include <manta/core/init.h>
#include <manta/preprocess/chain.h>
#include <manta/preprocess/concatenator.h>
#include <manta/preprocess/encoders.h>
#include <manta/preprocess/scalers.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "bench_clock.h"

using namespace manta;

namespace {

constexpr int kRuns = 5;       // the first warms up
constexpr int kServed = 2000;  // rows, one by one

const std::vector<std::string> kNumbers = {"trip_distance", "fare_amount", "tip_amount"};
const std::vector<std::string> kCategories = {"payment_type", "PULocationID"};

// The result of a run is freed after the measurement, as in the programs of the peers.
template <class Run>
Json seconds_of(const Run& run) {
  Json seconds = Json::array();
  for (int i = 0; i < kRuns; ++i) {
    double start = now_s();
    auto result = run();
    if (i > 0) seconds.push_back(now_s() - start);
  }
  return seconds;
}

template <class Learner>
Learner fitted(Learner learner, const Dataset& rows) {
  learner.fit(rows);
  return learner;
}

// A chain as in a served model: microseconds for each row.
Json row_us(const std::string& path) {
  Dataset rows =
      data::read_parquet(path, {.columns = {"payment_type", "trip_distance", "fare_amount"}});
  Chain chain(OneHotEncoder({"payment_type"}), StandardScaler({"trip_distance", "fare_amount"}),
              Concatenator({"payment_type", "trip_distance", "fare_amount"},
                           {.dtype = "float32", .flatten = true}));
  chain.fit(rows);
  auto first = rows.take(kServed)->CombineChunksToBatch().ValueOrDie();
  Json times = Json::array();
  for (int run = 0; run < kRuns; ++run) {
    double start = now_s();
    for (int64_t i = 0; i < first->num_rows(); ++i) chain.transform_batch(first->Slice(i, 1));
    if (run > 0) times.push_back((now_s() - start) * 1e6 / static_cast<double>(first->num_rows()));
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  CLI::App app("Measures preprocessors");
  std::string path;
  int64_t start_ns = 0;
  app.add_option("path", path, "of taxi trips, a file or a folder")->required();
  app.add_option("--start-ns", start_ns, "not needed here");
  CLI11_PARSE(app, argc, argv);
  try {
    auto read = [&](const std::vector<std::string>& columns) {
      return data::read_parquet(path, {.columns = columns});
    };
    Json figures;
    figures["standard_fit_s"] =
        seconds_of([&] { return fitted(StandardScaler(kNumbers), read(kNumbers)); });
    figures["ordinal_fit_s"] =
        seconds_of([&] { return fitted(OrdinalEncoder(kCategories), read(kCategories)); });
    figures["one_hot_fit_s"] =
        seconds_of([&] { return fitted(OneHotEncoder(kCategories), read(kCategories)); });
    OneHotEncoder encoder(kCategories);
    encoder.fit(read(kCategories));
    figures["one_hot_transform_s"] =
        seconds_of([&] { return encoder.transform(read(kCategories)).to_table(); });
    figures["standard_fit_transform_s"] = seconds_of(
        [&] { return StandardScaler(kNumbers).fit_transform(read(kNumbers)).to_table(); });
    figures["row_us"] = row_us(path);
    std::cout << figures.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "preprocess_bench: " << error.what() << std::endl;
    return 1;
  }
}
