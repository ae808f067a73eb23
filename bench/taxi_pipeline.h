#pragma once

#include <manta/manta.h>

#include <string>
#include <vector>

inline const std::vector<std::string> kTaxiFeatures = {
    "passenger_count", "trip_distance", "fare_amount", "trip_duration", "hour", "day_of_week"};
inline const std::string kTaxiLabel = "is_big_tip";

/// Loads a Parquet file, or a folder of such files.
inline manta::Dataset load_taxi(const std::string& path) {
  using namespace manta;
  return data::read_parquet(
             path, {.columns = {"tpep_pickup_datetime", "tpep_dropoff_datetime", "tip_amount",
                                "passenger_count", "trip_distance", "fare_amount"}})
      .drop_na()
      .filter(col("passenger_count") <= 4 && col("trip_distance") < 100 &&
              col("fare_amount") < 1000)
      .with_column("trip_duration",
                   seconds_between(col("tpep_pickup_datetime"), col("tpep_dropoff_datetime")))
      .filter(col("trip_duration") < 4 * 60 * 60)
      .with_column("hour", hour(col("tpep_pickup_datetime")))
      .with_column("day_of_week", day_of_week(col("tpep_pickup_datetime")))
      .with_column(kTaxiLabel, col("tip_amount") > 0.2 * col("fare_amount"))
      .drop_columns({"tpep_pickup_datetime", "tpep_dropoff_datetime", "tip_amount"});
}
