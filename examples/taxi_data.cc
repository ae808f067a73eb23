#include "taxi_data.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <manta/base/error.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <vector>

namespace {

void check(const arrow::Status& status, const std::string& doing) {
  if (!status.ok()) throw manta::Error(manta::ErrorKind::kIo, doing + ": " + status.ToString());
}

template <class T>
T check(arrow::Result<T> result, const std::string& doing) {
  check(result.status(), doing);
  return std::move(result).ValueUnsafe();
}

// Random numbers of one trip, from (seed, row) only. The standard library's distributions differ
// between implementations, so the few that are needed are here.
class Random {
 public:
  Random(uint64_t seed, int64_t row) : state_(mix(mix(seed) + static_cast<uint64_t>(row))) {}

  double uniform() { return static_cast<double>(mix(state_ += kStep) >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }
  int64_t from_to(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(uniform() * static_cast<double>(last - first + 1));
  }
  double normal(double mean, double deviation) {
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return mean + deviation * radius * std::cos(2 * M_PI * uniform());
  }
  double exponential(double mean) { return -mean * std::log(1 - uniform()); }
  template <size_t n>
  size_t choose(const std::array<double, n>& weights) {
    double left = uniform();
    for (size_t i = 0; i + 1 < n; ++i) {
      if (left < weights[i]) return i;
      left -= weights[i];
    }
    return n - 1;
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  static uint64_t mix(uint64_t x) {
    x = (x + kStep) ^ ((x + kStep) >> 30);
    x *= 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  uint64_t state_;
};

constexpr int64_t kFirstSecond = 1577836800;  // Wednesday, 2020-01-01 00:00:00
constexpr int64_t kHours = 31 * 24;

int day_of_week(int64_t hour) { return static_cast<int>((hour / 24 + 2) % 7); }

// Pickups per hour of the month, added up: quiet nights, busy evenings, long Friday nights.
std::vector<double> cumulated_demand() {
  std::vector<double> sums = {0};
  for (int64_t hour = 0; hour < kHours; ++hour) {
    double time = static_cast<double>(hour % 24);
    double demand = 1.2 - std::cos((time - 4) * 2 * M_PI / 24);
    if (day_of_week(hour) >= 5 && time < 4) demand += 0.8;
    sums.push_back(sums.back() + demand);
  }
  return sums;
}

double round_to(double value, double step) { return std::round(value / step) * step; }
double cents(double value) { return std::round(value * 100) / 100; }

struct Trip {
  int64_t vendor, pickup, dropoff, from, to, payment;
  bool has_passengers, stored;
  double passengers, distance, rate_code, fare, extra, tip, tolls, congestion, airport_fee;
};

Trip make_trip(const TaxiOptions& options, const std::vector<double>& demand, int64_t row) {
  Random random(options.seed, row);
  Trip trip{};
  double place = (static_cast<double>(row) + random.uniform()) / static_cast<double>(options.rows);
  auto above = std::upper_bound(demand.begin() + 1, demand.end() - 1, place * demand.back());
  int64_t hour = above - demand.begin() - 1;
  double part = (place * demand.back() - *(above - 1)) / (*above - *(above - 1));
  trip.pickup = kFirstSecond + hour * 3600 + static_cast<int64_t>(part * 3600);

  trip.distance = cents(std::clamp(std::exp(random.normal(0.55, 0.85)), 0.01, 60.0));
  if (random.chance(0.0002)) trip.distance = cents(100 + random.exponential(80));
  double seconds = trip.distance * random.normal(240, 60) + random.exponential(180);
  auto duration = static_cast<int64_t>(std::clamp(seconds, 30.0, 3 * 3600.0));
  trip.fare = round_to(2.5 + 1.9 * trip.distance + static_cast<double>(duration) / 60 * 0.4, 0.5);
  if (random.chance(0.001)) duration = -random.from_to(1, 600);
  if (random.chance(0.001)) duration = 86400 - random.from_to(1, 3600);
  trip.dropoff = trip.pickup + duration;

  trip.vendor = random.from_to(1, 2);
  trip.has_passengers = !random.chance(0.01);
  trip.passengers =
      static_cast<double>(random.choose<7>({0.02, 0.71, 0.15, 0.04, 0.02, 0.035, 0.025}));
  trip.rate_code =
      static_cast<double>(1 + random.choose<6>({0.96, 0.02, 0.005, 0.005, 0.009, 0.001}));
  trip.stored = random.chance(0.01);
  trip.from = random.from_to(1, 265);
  trip.to = random.from_to(1, 265);
  double cash = trip.distance < 2 ? 0.30 : 0.18;
  trip.payment = 1 + static_cast<int64_t>(random.choose<4>({1 - cash - 0.015, cash, 0.01, 0.005}));

  auto time = hour % 24;
  double rate = 0.17;
  if (time >= 18 || time < 2) rate += 0.07;
  if (time >= 6 && time < 10) rate -= 0.03;
  if (day_of_week(hour) >= 5) rate += 0.02;
  if (trip.distance < 2) rate += 0.05;
  if (trip.distance > 8) rate -= 0.06;
  if (trip.passengers >= 3) rate -= 0.02;
  rate = std::clamp(random.normal(rate, 0.04), 0.0, 1.0);
  trip.tip = trip.payment == 1 ? cents(trip.fare * rate) : 0;

  bool rush = time >= 16 && time < 20 && day_of_week(hour) < 5;
  trip.extra = rush ? 1.0 : (time >= 20 || time < 6 ? 0.5 : 0.0);
  trip.tolls = random.chance(trip.distance > 8 ? 0.4 : 0.02) ? 6.12 : 0;
  trip.congestion = random.chance(0.92) ? 2.5 : 0;
  trip.airport_fee = random.chance(trip.distance > 8 ? 0.3 : 0.01) ? 1.25 : 0;
  return trip;
}

constexpr double kMtaTax = 0.5;
constexpr double kImprovementSurcharge = 0.3;

template <class Builder, class Get>
std::shared_ptr<arrow::Array> column(Builder&& builder, const std::vector<Trip>& trips, Get&& get) {
  const char* doing = "making a column of taxi trips";
  check(builder.Reserve(static_cast<int64_t>(trips.size())), doing);
  for (const Trip& trip : trips) check(builder.Append(get(trip)), doing);
  return check(builder.Finish(), doing);
}

std::shared_ptr<arrow::Array> integers(const std::vector<Trip>& trips, int64_t Trip::*field) {
  return column(arrow::Int64Builder(), trips, [&](const Trip& trip) { return trip.*field; });
}
std::shared_ptr<arrow::Array> numbers(const std::vector<Trip>& trips, double Trip::*field) {
  return column(arrow::DoubleBuilder(), trips, [&](const Trip& trip) { return trip.*field; });
}
std::shared_ptr<arrow::Array> times(const std::vector<Trip>& trips, int64_t Trip::*field) {
  auto type = arrow::timestamp(arrow::TimeUnit::MICRO);
  return column(arrow::TimestampBuilder(type, arrow::default_memory_pool()), trips,
                [&](const Trip& trip) { return trip.*field * 1'000'000; });
}
std::shared_ptr<arrow::Array> passengers(const std::vector<Trip>& trips) {
  const char* doing = "making a column of taxi trips";
  arrow::DoubleBuilder builder;
  for (const Trip& trip : trips) {
    check(trip.has_passengers ? builder.Append(trip.passengers) : builder.AppendNull(), doing);
  }
  return check(builder.Finish(), doing);
}

std::shared_ptr<arrow::Table> to_table(const std::vector<Trip>& trips) {
  auto constant = [&](double value) {
    return column(arrow::DoubleBuilder(), trips, [&](const Trip&) { return value; });
  };
  auto total = column(arrow::DoubleBuilder(), trips, [](const Trip& trip) {
    return cents(trip.fare + trip.extra + kMtaTax + trip.tip + trip.tolls + kImprovementSurcharge +
                 trip.congestion + trip.airport_fee);
  });
  auto flags = column(arrow::StringBuilder(), trips,
                      [](const Trip& trip) { return trip.stored ? "Y" : "N"; });
  std::vector<std::pair<const char*, std::shared_ptr<arrow::Array>>> columns = {
      {"VendorID", integers(trips, &Trip::vendor)},
      {"tpep_pickup_datetime", times(trips, &Trip::pickup)},
      {"tpep_dropoff_datetime", times(trips, &Trip::dropoff)},
      {"passenger_count", passengers(trips)},
      {"trip_distance", numbers(trips, &Trip::distance)},
      {"RatecodeID", numbers(trips, &Trip::rate_code)},
      {"store_and_fwd_flag", flags},
      {"PULocationID", integers(trips, &Trip::from)},
      {"DOLocationID", integers(trips, &Trip::to)},
      {"payment_type", integers(trips, &Trip::payment)},
      {"fare_amount", numbers(trips, &Trip::fare)},
      {"extra", numbers(trips, &Trip::extra)},
      {"mta_tax", constant(kMtaTax)},
      {"tip_amount", numbers(trips, &Trip::tip)},
      {"tolls_amount", numbers(trips, &Trip::tolls)},
      {"improvement_surcharge", constant(kImprovementSurcharge)},
      {"total_amount", total},
      {"congestion_surcharge", numbers(trips, &Trip::congestion)},
      {"airport_fee", numbers(trips, &Trip::airport_fee)},
  };
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (auto& [name, values] : columns) {
    fields.push_back(arrow::field(name, values->type()));
    arrays.push_back(values);
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

}  // namespace

void write_taxi_data(const std::string& path, const TaxiOptions& options) {
  if (options.rows < 1 || options.row_group_rows < 1) {
    throw manta::Error(manta::ErrorKind::kInvalidArgument,
                       "write_taxi_data: " + std::to_string(options.rows) +
                           " rows in row groups of " + std::to_string(options.row_group_rows) +
                           "; both must be at least 1");
  }
  const std::string doing = "writing '" + path + "'";
  const std::string unfinished = path + ".unfinished";  // a reader never sees half a file
  auto demand = cumulated_demand();
  auto file = check(arrow::io::FileOutputStream::Open(unfinished), doing);
  auto snappy =
      parquet::WriterProperties::Builder().compression(parquet::Compression::SNAPPY)->build();
  std::unique_ptr<parquet::arrow::FileWriter> writer;
  for (int64_t row = 0; row < options.rows; row += options.row_group_rows) {
    std::vector<Trip> trips;
    int64_t end = std::min(options.rows, row + options.row_group_rows);
    for (int64_t i = row; i < end; ++i) trips.push_back(make_trip(options, demand, i));
    auto table = to_table(trips);
    if (!writer) {
      writer = check(parquet::arrow::FileWriter::Open(*table->schema(),
                                                      arrow::default_memory_pool(), file, snappy),
                     doing);
    }
    check(writer->WriteTable(*table, options.row_group_rows), doing);
  }
  check(writer->Close(), doing);
  check(file->Close(), doing);
  std::filesystem::rename(unfinished, path);
}
