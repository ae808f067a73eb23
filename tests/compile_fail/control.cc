// expect-ok
// Shows that the other snippets fail for the reason that they name, not because of a wrong include
// path or flag.
#include <manta/manta.h>

int add(int a, int b) { return a + b; }

int main(int argc, char** argv) {
  manta::init(argc, argv);
  return manta::get(manta::remote(add, 20, 22)) == 42 ? 0 : 1;
}
