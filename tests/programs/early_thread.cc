// A program with a thread that runs before main: forking it would not be safe, so workers are
// exec'ed.

#include <manta/manta.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "usage.h"

namespace {

std::thread early([] { std::this_thread::sleep_for(std::chrono::hours(1)); });

struct Counter {
  int value = 0;
  int add(int x) { return value += x; }
};

[[gnu::noinline]] int give_up(int value) {
  if (value == 1) std::abort();
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  manta::set_log_level(manta::LogLevel::kInfo);
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  early.detach();
  if (auto done = usage(argc, argv, "early_thread [crash]", 0, 1)) return *done;
  if (argc > 1 && std::string(argv[1]) == "crash") {
    try {
      manta::get(manta::remote({.max_retries = 0}, give_up, 1));
    } catch (const manta::Error& error) {
      std::cout << error.what() << std::endl;
    }
    return 0;
  }
  auto counter = manta::actor<Counter>();
  manta::get(counter.call<&Counter::add>(1));
  int sum = 0;
  for (int i = 0; i < 10; ++i) sum += manta::get(manta::remote([](int x) { return x; }, i));
  std::cout << sum << " " << manta::get(counter.call<&Counter::add>(1)) << std::endl;
}
