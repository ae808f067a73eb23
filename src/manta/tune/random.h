#pragma once

#include <cstdint>
#include <memory>

namespace manta::tune {

/// Random numbers that are a function of (seed, number): those of one suggestion. There is no state
/// to store: the same seed gives the same suggestions, also in an experiment that goes on later.
class Random {
 public:
  Random(uint64_t seed, uint64_t number);
  ~Random();
  Random(const Random&) = delete;
  Random& operator=(const Random&) = delete;

  double uniform();                  ///< From [0, 1): a multiple of 2^-53.
  uint64_t integer(uint64_t below);  ///< From [0, below), each equally likely. `below` is not 0.
  double normal();                   ///< Of mean 0 and standard deviation 1.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace manta::tune
