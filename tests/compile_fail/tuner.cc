// expect: where what a lambda captures does not exist
// expect: a function to tune must be void, double or Json (const Json& config)
// expect: a function to tune must be void, double or Json (const Json& config)
// expect: a Tuner takes a trainer, or a plain function or lambda without captures
#include <manta/manta.h>

using manta::Json;
using manta::Tuner;

int count(const Json& config) { return config.at("n"); }
double two(double a, double b) { return a + b; }

int main() {
  int n = 1;
  Tuner captures([&n](const Json&) { return 1.0 * n; });
  Tuner integer(count);
  Tuner numbers(two);
  Tuner number(5);
}
