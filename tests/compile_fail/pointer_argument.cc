// expect: Pointers and references to live objects never travel
#include <manta/manta.h>

void f(double* data) {
  manta::remote([](double* d) { return *d; }, data);
}
