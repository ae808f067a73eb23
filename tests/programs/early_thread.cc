// A program with a thread that runs before main: forking it would not be safe, so workers are
// exec'ed.

#include <manta/manta.h>

#include <iostream>
#include <thread>

namespace {

std::thread early([] { std::this_thread::sleep_for(std::chrono::hours(1)); });

struct Counter {
  int value = 0;
  int add(int x) { return value += x; }
};

}  // namespace

int main(int argc, char** argv) {
  manta::set_log_level(manta::LogLevel::kInfo);
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  early.detach();
  auto counter = manta::actor<Counter>();
  manta::get(counter.call<&Counter::add>(1));
  int sum = 0;
  for (int i = 0; i < 10; ++i) sum += manta::get(manta::remote([](int x) { return x; }, i));
  std::cout << sum << " " << manta::get(counter.call<&Counter::add>(1)) << std::endl;
}
