// expect: a lambda with captures cannot travel to another process
#include <manta/manta.h>

int f(int x) {
  return manta::get(manta::remote([x] { return x; }));
}
