#include "manta/tune/random.h"

#include <cmath>
#include <numbers>

#include "manta/data/generator_internal.h"

namespace manta::tune {
namespace {

constexpr uint64_t kSuggestions = 0x74756e65;  // keeps them apart from orders of rows

}  // namespace

struct Random::State {
  data::Generator generator;
};

Random::Random(uint64_t seed, uint64_t number)
    : state_(std::make_unique<State>(State{data::Generator({kSuggestions, seed, number})})) {}

Random::~Random() = default;

double Random::uniform() { return static_cast<double>(state_->generator.next() >> 11) * 0x1p-53; }

uint64_t Random::integer(uint64_t below) { return state_->generator.below(below); }

double Random::normal() {  // Box and Muller's method
  double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace manta::tune
