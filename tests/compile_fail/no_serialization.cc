// expect: this type cannot travel to another process
#include <manta/manta.h>

struct Opaque {
  int* pointer = nullptr;
};

void f(const Opaque& opaque) {
  manta::remote([](const Opaque&) {}, opaque);
}
