#pragma once

#include <cstdint>
#include <string>

/// Which taxi trips to make up.
struct TaxiOptions {
  int64_t rows = 1'000'000;
  uint64_t seed = 2020;                 ///< The same seed and rows give the same trips everywhere.
  int64_t row_group_rows = 256 * 1024;  ///< Does not change the trips, only how they are stored.
};

/// Writes a Parquet file that looks like a month of New York's yellow taxis: the columns of the
/// Taxi and Limousine Commission's files, ordered by pickup, with their oddities (1% of the trips
/// have no passenger count, a few end before they begin or last all day). How much people tip
/// depends on the hour, the day, the distance and the way of paying, so that there is something to
/// learn. Holds one row group in memory at a time. Throws manta::Error if it cannot be written.
void write_taxi_data(const std::string& path, const TaxiOptions& options = {});
