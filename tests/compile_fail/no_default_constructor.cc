// expect: needs a default constructor
#include <manta/manta.h>

struct Point {
  explicit Point(int x) : x(x) {}
  int x;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x);
  }
};

void f() {
  manta::remote([](const Point& p) { return p.x; }, Point(1));
}
