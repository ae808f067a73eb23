#pragma once

#include <string>

#include "manta/base/json.h"

/// {"recovery_s": [...]}: from the SIGKILL of one of two workers that train on the taxi data until
/// both have done a step again. The group is killed twice in one run.
manta::Json measure_recovery(const std::string& file);
