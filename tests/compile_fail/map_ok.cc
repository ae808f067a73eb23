// expect-ok
#include <manta/manta.h>

using manta::Row;

// All forms of functions of rows.

Row keep(const Row& row) { return row; }
Row by_value(Row row) noexcept { return row.set("x", 1); }
Row scale(const Row& row, const double& by) {
  return Row{{"x", row.get<double>("x") * by}, {"none", std::optional<int>()}};
}
Row json(const Row& row, const manta::Json&) { return row; }
std::vector<Row> twice(const Row& row) { return {row, row}; }
bool stays(const Row& row) { return row.has("x"); }
bool less(const Row& row, int64_t most) { return row.get<int64_t>("x") < most; }

static const auto named_keep = manta::named("keep_row", keep);
static const auto named_json = manta::named("json_row", json);
static const auto named_stays =
    manta::named("stays", [](const Row& row) { return row.get<std::vector<int>>("x").empty(); });

manta::Dataset f(const manta::Dataset& dataset) {
  for (const Row& row : dataset.iter_rows()) static_cast<void>(row.get<std::string>("x"));
  return dataset.map(keep)
      .map(by_value)
      .map([](const Row& row) { return row; })
      .map(scale, 2.5)
      .map(json, {{"n", 1}})
      .map(named_keep)
      .map(named_json, {{"n", 1}})
      .flat_map(twice)
      .flat_map([](const Row& row) { return std::vector<Row>{row}; })
      .filter(stays)
      .filter(less, 3)
      .filter(named_stays)
      .filter([](const Row&) { return true; })
      .filter(manta::col("x") > 3)
      .filter(true);
}
