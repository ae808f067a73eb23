// A program without symbols, as users ship them. Prints the results of its functions in other
// processes.

#include <arrow/api.h>
#include <manta/base/names_internal.h>
#include <manta/manta.h>

#include <iostream>

#include "usage.h"

using namespace manta;

int add(int a, int b) { return a + b; }
int never_called_by_name(int x) { return x + 1; }

int main(int argc, char** argv) {
  manta::init(argc, argv);
  if (auto done = usage(argc, argv, "stripped", 0, 0)) return *done;
  int sum = get(remote(add, 20, 22));
  int lambda = get(remote([](int x) { return 2 * x; }, 21));
  Function inside = detail::make_function(&never_called_by_name);
  inside.target.offset += 1;
  std::string refused;
  try {
    resolve_function(inside);
  } catch (const Error& error) {
    refused = error.what();
  }
  std::cout << sum << " " << lambda << " " << refused << std::endl;
}
