#include <climits>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/remote_checkpoint_internal.h"
#include "manta/train/remote_run_internal.h"
#include "manta/train/run_storage_internal.h"
#include "manta/train/stop_criteria_internal.h"

namespace manta::train {
namespace {

constexpr const char* kParams = "/params.json";
// Plans hold the names of their files and the arguments of their functions. They lie in three
// objects: {"datasets": {"train": {"plan": ...
constexpr JsonLimits kParamsLimits{.bytes = kMostParamsBytes, .depth = data::kMaxPlanNesting + 3};
constexpr double kMostOfResource = 1e12;  // as check_resources

std::string split_reading_text(SplitReading split_reading) {
  if (split_reading == SplitReading::kAlways) return "always";
  return split_reading == SplitReading::kNever ? "never" : "auto";
}

}  // namespace

Json resources_to_json(const Resources& resources) {
  return {{"cpus", resources.cpus},
          {"gpus", resources.gpus},
          {"memory", resources.memory},
          {"custom", resources.custom}};
}

Resources resources_from_json(const JsonFields& json) {
  Resources resources;
  resources.cpus = json.number("cpus", 0, kMostOfResource);
  resources.gpus = json.number("gpus", 0, kMostOfResource);
  resources.memory = json.integer("memory", 0, INT64_MAX);
  for (const Json& pair : json.array("custom")) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number() ||
        !(pair[1] >= 0 && pair[1] <= kMostOfResource))
      json.fail("custom", "pairs of a name and an amount");
    resources.custom.emplace_back(pair[0].get<std::string>(), pair[1].get<double>());
  }
  return resources;
}

Json run_config_to_json(const RunConfig& run) {
  const auto& at_end = run.checkpoint_config.checkpoint_at_end;
  return {{"name", run.name},
          {"storage_path", run.storage_path},
          {"storage_timeout_ms", run.storage_timeout.count()},
          {"max_failures", run.failure_config.max_failures},
          {"num_to_keep", run.checkpoint_config.num_to_keep},
          {"checkpoint_score_attribute", run.checkpoint_config.checkpoint_score_attribute},
          {"checkpoint_score_order", run.checkpoint_config.checkpoint_score_order},
          {"max_in_flight", run.checkpoint_config.max_in_flight},
          {"checkpoint_frequency", run.checkpoint_config.checkpoint_frequency},
          {"checkpoint_at_end", at_end ? Json(*at_end) : Json()},
          {"callbacks", run.callbacks.size()},
          {"collective_timeout_ms", run.collective_timeout.count()},
          {"stop_grace_ms", run.stop_grace.count()},
          {"folder_mode", run.folder_mode},
          {"fsync", run.checkpoint_config.fsync},
          {"stop", stop_criteria_to_json(run.stop)},
          {"verbose", run.verbose}};
}

Json params_of(const Training& training) {
  Json datasets = Json::object();
  for (const auto& [name, dataset] : training.datasets) {
    datasets[name] = {{"explain", dataset.explain()}};
    if (dataset.plan()->why_not_stored().empty()) datasets[name]["plan"] = dataset.to_json();
  }
  Json params = {
      {"trainer", training.trainer},
      {"train_loop_config", training.config},
      {"scaling_config",
       {{"num_workers", training.scaling.num_workers},
        {"use_gpu", training.scaling.use_gpu},
        {"resources_per_worker", resources_to_json(training.scaling.resources_per_worker)},
        {"placement_strategy", to_string(training.scaling.placement_strategy)},
        {"min_workers", training.scaling.min_workers},
        {"split_reading", split_reading_text(training.scaling.split_reading)}}},
      {"run_config", run_config_to_json(training.run)},
      {"datasets", datasets},
      {"framework", training.framework},
      {"resume_from_checkpoint", training.resume_from_checkpoint.uri()}};
  if (training.preprocessor && training.preprocessor->is_fitted())
    params["preprocessor"] = training.preprocessor->to_json();
  return params;
}

std::string params_text(const Json& params) {
  return readable_text(
      params, "what params.json keeps of train_loop_config and the trainer's other options",
      "give large tables as files, not in train_loop_config", kParamsLimits, /*indent=*/1);
}

namespace {

std::string params_document(const std::string& run_folder) {
  auto address = remote_address(run_folder);
  return str("'", address ? address->child("params.json").text() : run_folder + kParams, "'");
}

}  // namespace

Json read_params(const std::string& run_folder) {
  if (auto address = remote_address(run_folder))
    return parse_json(RemoteRun::read_params(*address), params_document(run_folder), kParamsLimits);
  try {
    return read_json((run_folder.empty() ? "." : run_folder) + kParams, kParamsLimits);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound,
                str("'", run_folder,
                    "' is no run folder: it has no params.json. Give the folder that "
                    "Result::path or the run's summary named"));
  }
}

namespace {

// Errors of a plan name the place of the plan.
Dataset dataset_from(const Json& plan, const std::string& where) {
  try {
    return Dataset::from_json(plan);
  } catch (const Error& error) {
    throw Error(error.kind(), str(where, ": ", error.what()));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kCorrupt, str(where, " is damaged: ", error.what()));
  }
}

SplitReading split_reading_from(const JsonFields& json) {
  std::string text = json.text("split_reading");
  for (SplitReading each : {SplitReading::kAuto, SplitReading::kAlways, SplitReading::kNever}) {
    if (text == split_reading_text(each)) return each;
  }
  json.fail("split_reading", "auto, always or never");
}

ScalingConfig scaling_from(const JsonFields& json) {
  ScalingConfig scaling;
  scaling.num_workers = static_cast<int>(json.integer("num_workers", 0, kMostWorkers));
  scaling.use_gpu = json.boolean("use_gpu");
  scaling.resources_per_worker = resources_from_json(json.object("resources_per_worker"));
  // Folders of earlier versions do not have this field.
  std::string placement = json.has("placement_strategy") ? json.text("placement_strategy") : "PACK";
  bool known = false;
  for (Placement each :
       {Placement::kPack, Placement::kSpread, Placement::kStrictPack, Placement::kStrictSpread}) {
    if (placement != to_string(each)) continue;
    scaling.placement_strategy = each;
    known = true;
  }
  if (json.has("min_workers"))
    scaling.min_workers = static_cast<int>(json.integer("min_workers", 0, scaling.num_workers));
  if (!known) json.fail("placement_strategy", "PACK, SPREAD, STRICT_PACK or STRICT_SPREAD");
  if (json.has("split_reading")) scaling.split_reading = split_reading_from(json);
  return scaling;
}

}  // namespace

RunConfig run_config_from_json(const JsonFields& json) {
  RunConfig run;
  run.name = json.text("name");
  run.storage_path = json.text("storage_path");
  if (json.has("storage_timeout_ms")) {
    run.storage_timeout =
        std::chrono::milliseconds(json.integer("storage_timeout_ms", 1, kLongestTimeout.count()));
  }
  run.failure_config.max_failures = static_cast<int>(json.integer("max_failures", -1, INT_MAX));
  run.checkpoint_config.num_to_keep = static_cast<int>(json.integer("num_to_keep", 0, INT_MAX));
  run.checkpoint_config.checkpoint_score_attribute = json.text("checkpoint_score_attribute");
  std::string order = json.text("checkpoint_score_order");
  if (order != "max" && order != "min") json.fail("checkpoint_score_order", "\"max\" or \"min\"");
  run.checkpoint_config.checkpoint_score_order = order;
  if (json.has("max_in_flight")) {
    run.checkpoint_config.max_in_flight =
        static_cast<int>(json.integer("max_in_flight", 1, kMostInFlight));
  }
  if (json.has("checkpoint_frequency")) {
    run.checkpoint_config.checkpoint_frequency =
        static_cast<int>(json.integer("checkpoint_frequency", 0, INT_MAX));
  }
  if (json.has("checkpoint_at_end") && !json.any("checkpoint_at_end").is_null()) {
    run.checkpoint_config.checkpoint_at_end = json.boolean("checkpoint_at_end");
  }
  run.collective_timeout =
      std::chrono::milliseconds(json.integer("collective_timeout_ms", 1, kLongestTimeout.count()));
  if (json.has("stop_grace_ms")) {
    run.stop_grace =
        std::chrono::milliseconds(json.integer("stop_grace_ms", 0, kLongestTimeout.count()));
  }
  if (json.has("folder_mode"))
    run.folder_mode = static_cast<unsigned>(json.integer("folder_mode", 0700, 0777));
  if (json.has("fsync")) run.checkpoint_config.fsync = json.boolean("fsync");
  if (json.has("stop")) run.stop = stop_criteria_from_json(json.object("stop"));
  // It was a boolean in earlier versions.
  run.verbose = json.any("verbose").is_boolean() ? json.boolean("verbose")
                                                 : static_cast<int>(json.integer("verbose", 0, 3));
  return run;
}

Training training_from_params(const std::string& run_folder,
                              const std::map<std::string, Dataset>& given) {
  std::string document = params_document(run_folder);
  Json json = read_params(run_folder);
  JsonFields params(json, document);
  Training training;
  training.trainer = params.text("trainer");
  training.config = params.object_or_null("train_loop_config");
  training.scaling = scaling_from(params.object("scaling_config"));
  training.run = run_config_from_json(params.object("run_config"));
  JsonFields datasets = params.object("datasets");
  for (const auto& [name, entry] : datasets.json().items()) {
    JsonFields dataset = datasets.object(name);
    if (!dataset.has("plan") || given.contains(name)) continue;
    std::string where = str(document, ", datasets.", name, ".plan");
    training.datasets.emplace(name, dataset_from(dataset.any("plan"), where));
  }
  training.framework = params.object("framework").json();
  if (params.has("preprocessor")) {
    training.preprocessor =
        AnyPreprocessor::from_json(params.any("preprocessor"), document + ", preprocessor");
  }
  std::string from = params.text("resume_from_checkpoint");
  try {
    if (auto address = remote_address(from)) {
      training.resume_from_checkpoint = StoredCheckpoint::at(from, read_remote_manifest(*address));
    } else if (!from.empty()) {
      training.resume_from_checkpoint = Checkpoint::open(from);
    }
  } catch (const Error& error) {  // only matters if the run has no checkpoint of its own
    training.resume_error = str("the checkpoint that the run began with: ", error.what());
  }
  if (auto address = remote_address(run_folder)) {
    training.restore_from = address->text();
    set_run_address(training.run, *address);  // whatever the file says
  } else {
    training.restore_from = std::filesystem::absolute(run_folder.empty() ? "." : run_folder)
                                .lexically_normal()
                                .string();
  }
  try {
    training.schedules_checkpoints = true;  // the trainer that continues the run decides
    check_training(training);
    training.schedules_checkpoints = false;
  } catch (const Error& error) {
    throw Error(ErrorKind::kCorrupt, str(document, " is damaged: ", error.what()));
  }
  return training;
}

}  // namespace manta::train
