// expect: the lambda's parameters need types of their own
#include <manta/manta.h>

void f() {
  manta::remote([](auto x) { return x; }, 1);
}
