#pragma once

#include <string>

#include "manta/base/json.h"

/// {"recovery_s": [...]}: from the moment in which one of two workers that train on the taxi data
/// is lost until both have done a step again; twice in one run. `what`: "kill" for a SIGKILL of the
/// worker; "crash" or "cut" for what on_hosts.cc does to its host ("cut": first both ways, then
/// only what the driver sends to it).
manta::Json measure_recovery(const std::string& file, const std::string& what);
