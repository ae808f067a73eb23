// Measures preprocessors and CSV on taxi trips: prints one JSON object.
//   data_bench scaler-fit <files>     {"rows_per_s": [...]}: StandardScaler::fit on three columns
//   data_bench scaler-row             {"row_us": [...]}: transform_batch of one row with 30 columns
//   data_bench write-csv <files> <to> {"rows_per_s": [...]}: write_csv
//   data_bench read-csv <files>       {"rows_per_s": [...]}: read_csv, all columns, to memory

#include <arrow/api.h>
#include <manta/manta.h>

#include <iostream>

#include "bench_clock.h"

using namespace manta;

namespace {

constexpr int kPasses = 4;  // The first warms up.

template <class Pass>
Json rates(Pass pass) {
  Json result = Json::array();
  for (int i = 0; i < kPasses; ++i) {
    double begin = now_s();
    auto rows = static_cast<double>(pass());
    if (i > 0) result.push_back(rows / (now_s() - begin));
  }
  return {{"rows_per_s", result}};
}

Json scaler_fit(const std::string& path) {
  return rates([&] {
    Dataset trips = data::read_parquet(path);
    StandardScaler scaler({"trip_distance", "fare_amount", "tip_amount"});
    scaler.fit(trips);
    return trips.count();
  });
}

Json scaler_row() {
  constexpr int kColumns = 30, kCalls = 20'000;
  Json row;
  std::vector<std::string> names;
  for (int i = 0; i < kColumns; ++i) {
    names.push_back("column " + std::to_string(100 + i));
    row[names.back()] = i + 0.5;
  }
  Dataset dataset = data::from_items({row, row});
  StandardScaler scaler(names);
  scaler.fit(dataset);
  auto batch = dataset.take(1)->CombineChunksToBatch().ValueOrDie();
  Json result = Json::array();
  for (int i = 0; i < kPasses; ++i) {
    double begin = now_s();
    for (int k = 0; k < kCalls; ++k) scaler.transform_batch(batch);
    if (i > 0) result.push_back((now_s() - begin) / kCalls * 1e6);
  }
  return {{"row_us", result}};
}

}  // namespace

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  std::string what = argc > 1 ? argv[1] : "";
  if (what == "scaler-row") {
    std::cout << scaler_row().dump() << std::endl;
  } else if (what == "scaler-fit" && argc > 2) {
    std::cout << scaler_fit(argv[2]).dump() << std::endl;
  } else if (what == "write-csv" && argc > 3) {
    Dataset trips = data::read_parquet(argv[2]);
    auto write = [&] { return trips.write_csv(argv[3], {.overwrite = true}); };
    std::cout << rates(write).dump() << std::endl;
  } else if (what == "read-csv" && argc > 2) {
    auto read = [&] { return data::read_csv(argv[2]).to_table()->num_rows(); };
    std::cout << rates(read).dump() << std::endl;
  } else {
    std::cerr << "see the first lines of data_bench.cc\n";
    return 2;
  }
  return 0;
} catch (const Error& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
