// expect: map, flat_map and filter cannot take a lambda with captures
// expect: parameters have types of their own
// expect: map needs a function of the form Row(const Row&)
// expect: flat_map needs a function of the form std::vector<Row>(const Row&)
// expect: filter needs an expression, or a function of the form bool(const Row&)
// expect: was given arguments for a function that takes a row only
// expect: with a parameter for arguments, and no arguments of that type
// expect: Row::get gives bool, integers, float, double, std::string
#include <manta/manta.h>

using manta::Row;

Row keep(const Row& row) { return row; }
Row scale(const Row& row, const double&) { return row; }
bool stays(const Row& row) { return row.has("x"); }
int number(const Row& row) { return row.get<int>("x"); }

void f(const manta::Dataset& dataset, int n) {
  dataset.map([n](const Row& row) { return Row{{"x", n}, {"y", row.get<int>("y")}}; });
  dataset.map([](const auto& row) { return row; });
  dataset.map(stays);
  dataset.flat_map(keep);
  dataset.filter(number);
  dataset.map(keep, 10);
  dataset.map(scale);
  Row{{"x", 1}}.get<void*>("x");
}
