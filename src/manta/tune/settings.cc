#include <climits>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/train/params_internal.h"
#include "manta/tune/experiment_folder_internal.h"
#include "manta/tune/settings_internal.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace {

constexpr int kVersion = 1;

// The stored object, or the given one if it is not stored.
template <class Any>
Any stored_or_given(const JsonFields& fields, const char* name, const std::string& document,
                    const std::optional<Any>& given) {
  bool stored = !fields.any(name).is_null();
  if (stored && given)
    throw Error(ErrorKind::kInvalidArgument,
                str("Tuner::restore: ", name,
                    " is stored, as it was no code of your own; do not "
                    "give it again"));
  if (stored) return Any::from_json(fields.any(name), document);
  if (given) return *given;
  throw Error(ErrorKind::kInvalidArgument, str("Tuner::restore: ", name,
                                               " was one of your own, which is not stored: give it "
                                               "again"));
}

}  // namespace

void check_tune_config(const TuneConfig& config) {
  auto refuse = [](const std::string& why) { throw Error(ErrorKind::kInvalidArgument, why); };
  if (!config.mode.empty() && config.mode != "min" && config.mode != "max")
    refuse(str("tune_config.mode must be min or max (was '", config.mode, "')"));
  if (config.metric.empty() != config.mode.empty())
    refuse(config.mode.empty()
               ? str("tune_config.mode must be min or max, as there is a metric, '", config.metric,
                     "'")
               : str("tune_config.metric must be set, as mode is (to '", config.mode, "')"));
  if (config.num_samples < 1)
    refuse(str("tune_config.num_samples must be at least 1 (was ", config.num_samples, ")"));
  if (config.max_concurrent_trials < 0)
    refuse(
        str("tune_config.max_concurrent_trials must be at least 1, or 0 for no limit of its own "
            "(was ",
            config.max_concurrent_trials, ")"));
  if (config.max_cpu_fraction && !(*config.max_cpu_fraction > 0 && *config.max_cpu_fraction <= 1))
    refuse(str("tune_config.max_cpu_fraction must be above 0 and at most 1 (was ",
               *config.max_cpu_fraction, ")"));
}

Json to_json(const Settings& settings) {
  bool whole = true;
  Json space = to_json(settings.space, &whole);
  const TuneConfig& config = settings.config;
  return {{"version", kVersion},
          {"trainable", settings.trainable},
          {"space", std::move(space)},
          {"space_is_whole", whole},
          {"metric", config.metric},
          {"mode", config.mode},
          {"num_samples", config.num_samples},
          {"max_concurrent_trials", config.max_concurrent_trials},
          {"max_cpu_fraction", config.max_cpu_fraction ? Json(*config.max_cpu_fraction) : Json()},
          {"seed", config.seed.value_or(0)},
          {"search_alg", config.search_alg.to_json()},
          {"scheduler", config.scheduler.to_json()},
          {"run_config", train::run_config_to_json(settings.run)}};
}

Space space_from(const std::string& experiment_folder, const Json& json) {
  std::string document = settings_document(experiment_folder);
  JsonFields fields(json, document);
  if (!fields.boolean("space_is_whole"))
    throw Error(ErrorKind::kInvalidArgument,
                "Tuner::restore: the search space has functions (sample_from), which are not "
                "stored: give param_space again");
  return space_from_json(fields.any("space"), document + ", space");
}

Settings settings_from(const std::string& experiment_folder, const Json& json,
                       const std::optional<AnySearcher>& search_alg,
                       const std::optional<AnyScheduler>& scheduler) {
  std::string document = settings_document(experiment_folder);
  JsonFields fields(json, document);
  fields.integer("version", kVersion, kVersion);
  Settings settings;
  settings.trainable = fields.text("trainable");
  TuneConfig& config = settings.config;
  config.metric = fields.text("metric");
  config.mode = fields.text("mode");
  config.num_samples = static_cast<int>(fields.integer("num_samples", 1, INT_MAX));
  config.max_concurrent_trials =
      static_cast<int>(fields.integer("max_concurrent_trials", 0, INT_MAX));
  if (!fields.any("max_cpu_fraction").is_null())
    config.max_cpu_fraction = fields.number("max_cpu_fraction", 0, 1);
  config.seed = fields.unsigned_integer("seed");
  config.search_alg = stored_or_given(fields, "search_alg", document, search_alg);
  config.scheduler = stored_or_given(fields, "scheduler", document, scheduler);
  settings.run = train::run_config_from_json(fields.object("run_config"));
  try {
    check_tune_config(config);
  } catch (const Error& error) {
    throw Error(ErrorKind::kCorrupt, str(document, " is damaged: ", error.what()));
  }
  return settings;
}

}  // namespace manta::tune
