#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/discretizers.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta::internal {
namespace {

constexpr size_t kMostEdges = 1 << 20;

std::vector<double> checked_edges(std::vector<double> edges, const DiscretizerOptions& options,
                                  const std::string& column, const std::string& who) {
  auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument,
                str(who, ": the edges of column '", column, "' ", what));
  };
  for (size_t i = 0; i < edges.size(); ++i) {
    if (std::isnan(edges[i])) fail("hold a NaN");
    if (i > 0 && edges[i] < edges[i - 1]) {
      fail(str("must ascend (", edges[i], " follows ", edges[i - 1], ")"));
    }
  }
  auto equal = std::adjacent_find(edges.begin(), edges.end());
  if (equal != edges.end()) {
    if (options.duplicates == "raise") {
      fail(str("hold ", *equal, " twice; set duplicates to \"drop\" to keep one of them"));
    }
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  }
  if (edges.size() < 2) fail(str("must be at least two different ones (were ", edges.size(), ")"));
  if (edges.size() > kMostEdges) fail(str("must be at most ", kMostEdges));
  auto names = options.dtypes.find(column);
  if (names != options.dtypes.end() && names->second.size() != edges.size() - 1) {
    fail(str("make ", edges.size() - 1, " bins, and dtypes has ", names->second.size(), " names"));
  }
  return edges;
}

}  // namespace

Bins::Bins(Columns columns, DiscretizerOptions options)
    : columns_(std::move(columns)), options_(std::move(options)) {
  if (options_.duplicates != "raise" && options_.duplicates != "drop") {
    throw Error(ErrorKind::kInvalidArgument,
                str(columns_.who(), ": duplicates must be \"raise\" or \"drop\" (was \"",
                    options_.duplicates, "\")"));
  }
  for (const auto& [column, names] : options_.dtypes) {
    if (!data::contains(columns_.inputs(), column)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(columns_.who(), ": dtypes names column '", column,
                      "', which is not among its columns ", data::join(columns_.inputs())));
    }
    if (std::set<std::string>(names.begin(), names.end()).size() != names.size() ||
        !is_utf8(Json(names))) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(columns_.who(), ": the names of the bins of column '", column,
                      "' must be different texts of UTF-8"));
    }
  }
}

void Bins::set_edges(std::vector<std::vector<double>> by_column) {
  MANTA_CHECK(by_column.size() == columns_.size(), "edges for each column");
  for (size_t i = 0; i < by_column.size(); ++i) {
    by_column[i] =
        checked_edges(std::move(by_column[i]), options_, columns_.inputs()[i], columns_.who());
  }
  edges_ = std::move(by_column);
}

std::shared_ptr<arrow::Array> Bins::binned(size_t column,
                                           const std::shared_ptr<arrow::Array>& values) const {
  const std::string& name = columns_.inputs()[column];
  auto numbers = preprocess::numbers_of(values, name, columns_.who());
  const auto& edges = edges_[column];
  auto bins = static_cast<int64_t>(edges.size()) - 1;
  auto bin_of = [&](double x) -> int64_t {  // -1: none
    if (std::isnan(x)) return -1;
    if (options_.include_lowest && x == edges[0]) return 0;
    auto place = options_.right ? std::lower_bound(edges.begin(), edges.end(), x)
                                : std::upper_bound(edges.begin(), edges.end(), x);
    int64_t bin = place - edges.begin() - 1;
    return bin < bins ? bin : -1;
  };
  arrow::Int64Builder places;
  check(places.Reserve(numbers->length()), "making bins");
  for (int64_t i = 0; i < numbers->length(); ++i) {
    int64_t bin = numbers->IsNull(i) ? -1 : bin_of(numbers->Value(i));
    if (bin < 0) {
      places.UnsafeAppendNull();
    } else {
      places.UnsafeAppend(bin);
    }
  }
  auto result = check(places.Finish(), "making bins");
  auto names = options_.dtypes.find(name);
  if (names == options_.dtypes.end()) return result;
  arrow::StringBuilder texts;
  check(texts.AppendValues(names->second), "names of bins");
  return std::make_shared<arrow::DictionaryArray>(arrow::dictionary(arrow::int64(), arrow::utf8()),
                                                  result, check(texts.Finish(), "names of bins"));
}

data::BatchPtr Bins::transform(const data::BatchPtr& batch) const {
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) arrays[i] = binned(i, arrays[i]);
  return columns_.with(batch, std::move(arrays));
}

void Bins::write(Json& state) const {
  columns_.write(state);
  state["right"] = options_.right;
  state["include_lowest"] = options_.include_lowest;
  state["duplicates"] = options_.duplicates;
  if (!options_.dtypes.empty()) state["dtypes"] = options_.dtypes;
  for (const auto& one : edges_) {
    Json edges = Json::array();
    for (double edge : one) {
      // JSON has no infinite numbers.
      edges.push_back(std::isfinite(edge) ? Json(edge) : Json(edge < 0 ? "-inf" : "inf"));
    }
    state["edges"].push_back(std::move(edges));
  }
}

std::vector<double> Bins::read_edges(const JsonFields& fields, const Json& edges,
                                     const std::string& key) {
  std::vector<double> numbers;
  if (!edges.is_array()) fields.fail(key, "lists of numbers");
  for (const Json& edge : edges) {
    bool infinite = edge == "inf" || edge == "-inf";
    if (!edge.is_number() && !infinite) fields.fail(key, "lists of numbers");
    numbers.push_back(infinite ? (edge == "inf" ? INFINITY : -INFINITY) : edge.get<double>());
  }
  return numbers;
}

Bins Bins::read(const std::string& who, const JsonFields& fields) {
  DiscretizerOptions options{.right = fields.boolean("right"),
                             .include_lowest = fields.boolean("include_lowest"),
                             .duplicates = fields.text("duplicates")};
  if (fields.has("dtypes")) {
    auto dtypes = fields.object("dtypes");
    for (const auto& [column, names] : dtypes.json().items()) {
      options.dtypes[column] = dtypes.texts(column, data::kLongestName);
    }
  }
  Bins bins(Columns::read(who, fields), std::move(options));
  if (!fields.has("edges")) return bins;
  std::vector<std::vector<double>> edges;
  for (const Json& one : fields.array("edges")) edges.push_back(read_edges(fields, one, "edges"));
  if (edges.size() != bins.columns_.size()) {
    fields.fail("edges", str(bins.columns_.size(), " lists, one for each column"));
  }
  bins.set_edges(std::move(edges));
  return bins;
}

}  // namespace manta::internal
