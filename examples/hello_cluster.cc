#include <manta/manta.h>

#include <iostream>
using namespace manta;
int add(int a, int b) { return a + b; }
struct Counter {
  int n = 0;
  Counter(int s) : n(s) {}
  int add(int x) { return n += x; }
};
int main(int argc, char** argv) {
  manta::init(argc, argv);
  std::cout << get(remote(add, 20, 22)) << "\n";
  auto c = actor<Counter>(10);
  std::cout << get(c.call<&Counter::add>(5)) << "\n";
}
