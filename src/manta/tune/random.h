#pragma once

#include <cstdint>
#include <memory>

namespace manta::tune {

/// The random numbers of one suggestion. They depend only on the seed and the suggestion's number,
/// so there is no state to store: the same seed gives the same suggestions, also in an experiment
/// that is restored later.
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
