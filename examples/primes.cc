// Tasks and an actor at their shortest.
//
//   primes
//
// Prints "78498 primes below a million".

#include <manta/manta.h>

#include <iostream>
#include <string>

using namespace manta;

int64_t count_primes(int64_t begin, int64_t end) {  // a task: any plain function
  int64_t count = 0;
  for (int64_t n = begin; n < end; ++n) {
    bool prime = n > 1;
    for (int64_t d = 2; prime && d * d <= n; ++d) prime = n % d != 0;
    count += prime;
  }
  return count;
}

struct Total {  // an actor: any class
  int64_t sum = 0;
  int64_t add(int64_t x) { return sum += x; }
};

int main(int argc, char** argv) try {
  manta::init(argc, argv);  // first line of main
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr) << "usage: primes   (counts those below a million)\n";
    return help ? 0 : 2;
  }
  auto total = actor<Total>();  // lives in a process of its own
  for (int64_t i = 0; i < 10; ++i) {
    auto count = remote(count_primes, i * 100'000, (i + 1) * 100'000);  // runs in a worker
    total.call<&Total::add>(count);                                     // when the count is there
  }
  std::cout << get(total.call<&Total::add>(0)) << " primes below a million\n";
} catch (const Error& error) {
  std::cerr << "primes: " << error.what() << std::endl;
  return 1;
}
