// Makes up taxi trips, in the form of New York's: see taxi_data.h.
//
//   make_taxi <file> [rows = 1000000] [seed = 2020] [rows of a row group = 262144]
//
// The same arguments give the same trips on every machine. Prints what it wrote:
//
//   taxi.parquet: 200000 trips in 4 row groups, 46% of them with a tip of over 20%

#include <manta/base/error.h>
#include <manta/data/dataset.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>

#include "taxi_data.h"

int main(int argc, char** argv) {
  using manta::col;
  CLI::App app("Makes up taxi trips and writes them to a Parquet file");
  std::string path;
  TaxiOptions options;
  app.add_option("file", path, "the file to write; an old one is replaced")->required();
  app.add_option("rows", options.rows, "trips")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("seed", options.seed, "another one gives other trips")->capture_default_str();
  app.add_option("row_group_rows", options.row_group_rows, "trips of a row group")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    write_taxi_data(path, options);
    auto trips = manta::data::read_parquet(path);
    auto big_tips = trips.filter(col("tip_amount") > 0.2 * col("fare_amount")).count();
    double share = 100.0 * static_cast<double>(big_tips) / static_cast<double>(options.rows);
    std::cout << path << ": " << trips.count() << " trips in "
              << (options.rows + options.row_group_rows - 1) / options.row_group_rows
              << " row groups, " << std::round(share) << "% of them with a tip of over 20%\n";
  } catch (const manta::Error& error) {
    std::cerr << "make_taxi: " << error.what() << "\n";
    return 1;
  }
}
