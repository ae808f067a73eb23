// expect: cannot be a non-const reference
#include <manta/manta.h>

void f() {
  manta::remote([](int& x) { ++x; }, 1);
}
