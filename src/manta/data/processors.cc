#include <algorithm>

#include "manta/core/resources_internal.h"
#include "manta/data/processors_internal.h"

namespace manta::data {

int all_processors(const std::string& root) {
  return std::max(1, static_cast<int>(detect_resources({}, root).cpus));
}

}  // namespace manta::data
