#pragma once

#include <string>

#include "manta/base/json.h"
#include "manta/train/config.h"
#include "manta/tune/space.h"
#include "manta/tune/tune_config.h"

namespace manta::tune {

/// The content of experiment.json: everything about an experiment but its code and objects.
struct Settings {
  std::string trainable;  ///< "function", or the trainer's name.
  Space space;
  TuneConfig config;  ///< With a seed.
  RunConfig run;
};

Json to_json(const Settings& settings);
/// Throws Error(kCorrupt) naming the file, the field and its value. A user-defined search algorithm
/// or scheduler is not stored: it is taken from `given`. The caller must check whether the stored
/// space equals that of the settings.
Settings settings_from(const std::string& experiment_folder, const Json& json,
                       const std::optional<AnySearcher>& search_alg,
                       const std::optional<AnyScheduler>& scheduler);
/// The stored space. Throws Error(kInvalidArgument) if it has functions.
Space space_from(const std::string& experiment_folder, const Json& json);

/// Throws Error(kInvalidArgument) if the config makes no sense.
void check_tune_config(const TuneConfig& config);

}  // namespace manta::tune
