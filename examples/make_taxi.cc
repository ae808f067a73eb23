// Makes up taxi trips, in the form of New York's: see taxi_data.h.
//
//   make_taxi <file> [rows = 1000000] [seed = 2020] [rows of a row group = 262144]
//
// The same arguments give the same trips on every machine. Prints what it wrote:
//
//   taxi.parquet: 200000 trips in 4 row groups, 46% of them with a tip of over 20%

#include <manta/base/error.h>
#include <manta/data/dataset.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

#include "taxi_data.h"

namespace {

int64_t number(const std::string& text) {
  char* end = nullptr;
  long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || value < 0) {
    throw manta::Error(manta::ErrorKind::kInvalidArgument, "'" + text + "' is not a number");
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  using manta::col;
  if (argc < 2 || argc > 5) {
    std::cerr << "usage: make_taxi <file> [rows] [seed] [rows of a row group]\n";
    return 2;
  }
  try {
    TaxiOptions options;
    if (argc > 2) options.rows = number(argv[2]);
    if (argc > 3) options.seed = static_cast<uint64_t>(number(argv[3]));
    if (argc > 4) options.row_group_rows = number(argv[4]);
    write_taxi_data(argv[1], options);
    auto trips = manta::data::read_parquet(argv[1]);
    auto big_tips = trips.filter(col("tip_amount") > 0.2 * col("fare_amount")).count();
    double share = 100.0 * static_cast<double>(big_tips) / static_cast<double>(options.rows);
    std::cout << argv[1] << ": " << trips.count() << " trips in "
              << (options.rows + options.row_group_rows - 1) / options.row_group_rows
              << " row groups, " << std::round(share) << "% of them with a tip of over 20%\n";
  } catch (const manta::Error& error) {
    std::cerr << "make_taxi: " << error.what() << "\n";
    return 1;
  }
}
