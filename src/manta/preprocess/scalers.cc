#include "manta/preprocess/scalers.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta {
namespace {

using preprocess::Summary;

constexpr double kMost = std::numeric_limits<double>::max();
// Below it, sums of squares lose digits, and become 0 at last.
constexpr double kLeast = std::numeric_limits<double>::min();

std::shared_ptr<arrow::Array> scaled(const arrow::DoubleArray& column, double offset,
                                     double divisor) {
  int64_t rows = column.length();
  auto buffer = check(arrow::AllocateBuffer(rows * 8), "scaling a column");
  const double* from = column.raw_values();
  auto* to = reinterpret_cast<double*>(buffer->mutable_data());
  for (int64_t i = 0; i < rows; ++i) to[i] = (from[i] - offset) / divisor;
  return std::make_shared<arrow::DoubleArray>(rows, std::move(buffer),
                                              preprocess::validity_of(column), column.null_count());
}

// The same object if nothing changes, which is usual: then nobody looks columns up again.
std::shared_ptr<arrow::Schema> scaled_schema(std::shared_ptr<arrow::Schema> schema,
                                             const std::vector<int>& places) {
  auto is_double = [&](int place) {
    return schema->field(place)->type()->id() == arrow::Type::DOUBLE;
  };
  if (!schema->HasMetadata() && std::all_of(places.begin(), places.end(), is_double)) return schema;
  auto fields = schema->fields();
  for (int place : places) {
    auto& field = fields[static_cast<size_t>(place)];
    if (!is_double(place)) field = arrow::field(field->name(), arrow::float64());
  }
  return arrow::schema(std::move(fields));
}

[[noreturn]] void throw_not_finite(const std::string& scaler, const std::string& column,
                                   const std::string& what, const Summary& summary) {
  throw Error(ErrorKind::kInvalidArgument,
              str(scaler, ": the values of column '", column, "' lie between ", summary.min,
                  " and ", summary.max, ", too far apart for a ", what,
                  "; remove infinite and huge values with a filter before"));
}

void require_fitted(const Preprocessor& preprocessor) {
  if (preprocessor.is_fitted()) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(preprocessor.to_string(), " is not fitted: call fit(dataset) first"));
}

// Two numbers for each column, in arrays; neither array is there before fit.
template <class Learned>
std::vector<Learned> read_learned(const JsonFields& fields, size_t columns, const char* first,
                                  const char* second) {
  std::vector<Learned> learned;
  if (!fields.has(first) && !fields.has(second)) return learned;
  for (const char* key : {first, second}) {
    bool fits = fields.array(key).size() == columns;
    for (const Json& value : fields.array(key)) {
      fits = fits && value.is_number() && std::isfinite(value.get<double>());
    }
    if (!fits) fields.fail(key, str(columns, " finite numbers, one for each column"));
  }
  for (size_t i = 0; i < columns; ++i) {
    learned.push_back(
        {fields.array(first)[i].get<double>(), fields.array(second)[i].get<double>()});
  }
  return learned;
}

JsonFields fields_of(const Json& state) { return JsonFields(state, JsonDocument("it")); }

}  // namespace

namespace internal {

ColumnScaler::ColumnScaler(const std::string& name, std::vector<std::string> columns)
    : columns_(std::move(columns)) {
  if (columns_.empty()) {
    throw Error(ErrorKind::kInvalidArgument, str(name, " was given no columns to scale"));
  }
  data::require_distinct(columns_, name);
}

data::BatchPtr ColumnScaler::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto schema = batch->schema();
  auto columns = batch->column_data();
  std::string scaler = name();
  auto places = preprocess::places_of(columns_, *schema, scaler);
  for (size_t i = 0; i < places.size(); ++i) {
    auto numbers = preprocess::numbers_of(batch->column(places[i]), columns_[i], scaler);
    columns[static_cast<size_t>(places[i])] =
        scaled(*numbers, scales_[i].offset, scales_[i].divisor)->data();
  }
  return arrow::RecordBatch::Make(scaled_schema(std::move(schema), places), batch->num_rows(),
                                  std::move(columns));
}

}  // namespace internal

StandardScaler::StandardScaler(std::vector<std::string> columns)
    : ColumnScaler("StandardScaler", std::move(columns)) {}

void StandardScaler::fit(const Dataset& dataset) {
  std::vector<Learned> learned;
  for (const Summary& summary : preprocess::summarise(dataset, columns_, name())) {
    double std = std::sqrt(summary.squares / static_cast<double>(summary.count));
    if (summary.is_constant()) {  // exactly: the sums are rounded
      learned.push_back({summary.min, 0});
    } else {
      learned.push_back({summary.mean, std});
    }
    const std::string& column = columns_[learned.size() - 1];
    if (!std::isfinite(learned.back().mean) || !std::isfinite(learned.back().std)) {
      throw_not_finite(name(), column, "mean and a standard deviation", summary);
    }
    if (!summary.is_constant() && summary.squares < kLeast) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(name(), ": the values of column '", column, "' lie between ", summary.min,
                      " and ", summary.max,
                      ", too close together for a standard deviation; multiply them by a large "
                      "number before, or use MinMaxScaler"));
    }
  }
  set(std::move(learned));
}

void StandardScaler::set(std::vector<Learned> learned) {
  std::vector<Scale> scales;
  for (const auto& [mean, std] : learned) scales.push_back({mean, std == 0 ? 1 : std});
  set_scales(std::move(scales));
  learned_ = std::move(learned);
}

Json StandardScaler::stats() const {
  require_fitted(*this);
  Json stats;
  for (size_t i = 0; i < columns_.size(); ++i) {
    stats[str("mean(", columns_[i], ")")] = learned_[i].mean;
    stats[str("std(", columns_[i], ")")] = learned_[i].std;
  }
  return stats;
}

Json StandardScaler::state() const {
  Json state = {{"columns", columns_}};
  for (const auto& [mean, std] : learned_) {
    state["mean"].push_back(mean);
    state["std"].push_back(std);
  }
  return state;
}

StandardScaler StandardScaler::from_state(const Json& state) {
  JsonFields fields = fields_of(state);
  StandardScaler scaler(fields.texts("columns", data::kLongestName));
  auto learned = read_learned<Learned>(fields, scaler.columns_.size(), "mean", "std");
  for (const auto& [mean, std] : learned) {
    if (std < 0) fields.fail("std", "no negative number");
  }
  scaler.set(std::move(learned));
  return scaler;
}

MinMaxScaler::MinMaxScaler(std::vector<std::string> columns)
    : ColumnScaler("MinMaxScaler", std::move(columns)) {}

void MinMaxScaler::fit(const Dataset& dataset) {
  std::vector<Learned> learned;
  for (const Summary& summary : preprocess::summarise(dataset, columns_, name())) {
    learned.push_back({summary.min, summary.max});
    if (!(summary.max - summary.min <= kMost) || !(std::abs(summary.min) <= kMost)) {
      throw_not_finite(name(), columns_[learned.size() - 1], "range", summary);
    }
  }
  set(std::move(learned));
}

void MinMaxScaler::set(std::vector<Learned> learned) {
  std::vector<Scale> scales;
  for (const auto& [min, max] : learned) scales.push_back({min, min == max ? 1 : max - min});
  set_scales(std::move(scales));
  learned_ = std::move(learned);
}

Json MinMaxScaler::stats() const {
  require_fitted(*this);
  Json stats;
  for (size_t i = 0; i < columns_.size(); ++i) {
    stats[str("min(", columns_[i], ")")] = learned_[i].min;
    stats[str("max(", columns_[i], ")")] = learned_[i].max;
  }
  return stats;
}

Json MinMaxScaler::state() const {
  Json state = {{"columns", columns_}};
  for (const auto& [min, max] : learned_) {
    state["min"].push_back(min);
    state["max"].push_back(max);
  }
  return state;
}

MinMaxScaler MinMaxScaler::from_state(const Json& state) {
  JsonFields fields = fields_of(state);
  MinMaxScaler scaler(fields.texts("columns", data::kLongestName));
  auto learned = read_learned<Learned>(fields, scaler.columns_.size(), "min", "max");
  for (const auto& [min, max] : learned) {
    if (!(max - min >= 0 && max - min <= kMost))
      fields.fail("max", "numbers from min on, at finite distances of it");
  }
  scaler.set(std::move(learned));
  return scaler;
}

}  // namespace manta
