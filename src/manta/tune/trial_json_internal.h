#pragma once

#include <string>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/core/resources.h"
#include "manta/train/config.h"

/// The content of the experiment's journal, as values.
namespace manta::tune {

Json to_json(const std::vector<Resources>& resources);
/// Throws Error(kCorrupt).
std::vector<Resources> resources_from_json(const Json& json);
RunOutcome outcome_from_name(const std::string& name);
ErrorKind kind_from_name(const std::string& name);

/// Throws Error(kCorrupt), whose message begins with `where`, unless a line of the journal has all
/// fields that its event needs, within limits.
void check_event(const std::string& where, const std::string& event, const Json& details);

}  // namespace manta::tune
