// expect: a lambda with captures cannot travel to another process
// expect: the lambda's parameters need types of their own
// expect: cannot be a non-const reference
// expect: needs a default constructor
// expect: this type cannot travel to another process
// expect: Pointers and references to live objects never travel
// expect: wrong number of arguments for this function
#include <manta/manta.h>

struct Point {
  explicit Point(int x) : x(x) {}
  int x;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x);
  }
};

struct Opaque {
  int* pointer = nullptr;
};

int add(int a, int b) { return a + b; }

void f(int x, const Opaque& opaque, double* data) {
  manta::remote([x] { return x; });
  manta::remote([](auto y) { return y; }, 1);
  manta::remote([](int& y) { ++y; }, 1);
  manta::remote([](const Point& p) { return p.x; }, Point(1));
  manta::remote([](const Opaque&) {}, opaque);
  manta::remote([](double* d) { return *d; }, data);
  manta::remote(add, 1);
}
