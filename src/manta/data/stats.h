#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace manta {

/// Where the time of a pass over a data set went. All times are in seconds. All but `seconds` and
/// `wait_seconds` are sums over the threads that worked at the same time.
struct DatasetStats {
  struct OperationTime {
    std::string operation;
    double seconds = 0;
    int64_t rows = 0;  ///< That came out of it.
  };

  double seconds = 0;       ///< From the beginning to the end, by the clock.
  double wait_seconds = 0;  ///< Of those, waiting for rows.
  int64_t rows = 0;
  int64_t bytes = 0;         ///< Of the rows, as Arrow data.
  int64_t rows_decoded = 0;  ///< Before filters.
  double read_seconds = 0;   ///< Waiting for bytes of files.
  /// Making columns of these bytes. For Parquet files at addresses this includes requests, which
  /// run ahead.
  double decode_seconds = 0;
  double temporary_seconds = 0;  ///< Reading rows that operations on all rows gave.
  std::vector<OperationTime> operations;

  /// A table for people.
  std::string to_string() const;
};

}  // namespace manta
