// expect: has no non-static data member named
// expect: could not convert
// expect: could not convert
// expect: has no non-static data member named
#include <manta/manta.h>

using namespace manta;

// Like a trainer's space: fields with types.
struct Space {
  tune::Space params = {};
  tune::ScalingSpace scaling_config = {};
};

Space unknown = {.scaling_config = {.n_workers = 2}};
Space text = {.scaling_config = {.num_workers = "two"}};
Space texts = {.scaling_config = {.num_workers = tune::grid_search({"two", "four"})}};
TuneConfig config = {.metrics = "loss"};
