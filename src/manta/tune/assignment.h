#pragma once

#include <map>
#include <string>

#include "manta/base/json.h"

namespace manta::tune {

/// What was drawn for one trial. For each leaf of the space, by its path ("params/eta",
/// "layers/0"): the value drawn from a domain, or the place (0, 1, ...) of the chosen value of a
/// choice or grid. A leaf inside a chosen space has a path such as "model[1]/C". In keys, '/' is
/// written as "~1" and '~' as "~0".
using Assignment = std::map<std::string, Json>;

}  // namespace manta::tune
