#include <filesystem>
#include <fstream>

#include "manta/data/plan_internal.h"
#include "manta/train/params_internal.h"

namespace manta::train {
namespace {

Json to_json(const Resources& resources) {
  return {{"cpus", resources.cpus},
          {"gpus", resources.gpus},
          {"memory", resources.memory},
          {"custom", resources.custom}};
}

Resources resources_from(const Json& json) {
  Resources resources;
  resources.cpus = json.at("cpus");
  resources.gpus = json.at("gpus");
  resources.memory = json.at("memory");
  resources.custom = json.at("custom").get<NamedAmounts>();
  return resources;
}

}  // namespace

Json params_of(const Training& training) {
  Json datasets = Json::object();
  for (const auto& [name, dataset] : training.datasets) {
    datasets[name] = {{"explain", dataset.explain()}};
    if (dataset.plan()->why_not_stored().empty()) datasets[name]["plan"] = dataset.to_json();
  }
  const auto& run = training.run;
  return {{"trainer", training.trainer},
          {"train_loop_config", training.config},
          {"scaling_config",
           {{"num_workers", training.scaling.num_workers},
            {"use_gpu", training.scaling.use_gpu},
            {"resources_per_worker", to_json(training.scaling.resources_per_worker)}}},
          {"run_config",
           {{"name", run.name},
            {"storage_path", run.storage_path},
            {"max_failures", run.failure_config.max_failures},
            {"num_to_keep", run.checkpoint_config.num_to_keep},
            {"checkpoint_score_attribute", run.checkpoint_config.checkpoint_score_attribute},
            {"checkpoint_score_order", run.checkpoint_config.checkpoint_score_order},
            {"collective_timeout_ms", run.collective_timeout.count()},
            {"verbose", run.verbose}}},
          {"datasets", datasets},
          {"framework", training.framework},
          {"resume_from_checkpoint", training.resume_from_checkpoint.path()}};
}

Json read_params(const std::string& run_folder) {
  std::string path = run_folder + "/params.json";
  std::ifstream in(path);
  if (!in) {
    throw Error(ErrorKind::kNotFound,
                str("'", run_folder,
                    "' is no run folder: it has no params.json. Give the folder that "
                    "Result::path or the run's summary named"));
  }
  Json params = Json::parse(in, nullptr, false);
  if (params.is_discarded()) throw Error(ErrorKind::kCorrupt, str("'", path, "' is not JSON"));
  return params;
}

Training training_from_params(const std::string& run_folder) {
  Json params = read_params(run_folder);
  try {
    Training training;
    training.trainer = params.at("trainer");
    training.config = params.at("train_loop_config");
    const Json& scaling = params.at("scaling_config");
    training.scaling.num_workers = scaling.at("num_workers");
    training.scaling.use_gpu = scaling.at("use_gpu");
    training.scaling.resources_per_worker = resources_from(scaling.at("resources_per_worker"));
    const Json& run = params.at("run_config");
    training.run.name = run.at("name");
    training.run.storage_path = run.at("storage_path");
    training.run.failure_config.max_failures = run.at("max_failures");
    training.run.checkpoint_config.num_to_keep = run.at("num_to_keep");
    training.run.checkpoint_config.checkpoint_score_attribute =
        run.at("checkpoint_score_attribute").get<std::string>();
    training.run.checkpoint_config.checkpoint_score_order =
        run.at("checkpoint_score_order").get<std::string>();
    training.run.collective_timeout =
        std::chrono::milliseconds(run.at("collective_timeout_ms").get<int64_t>());
    training.run.verbose = run.at("verbose");
    for (const auto& [name, dataset] : params.at("datasets").items()) {
      if (dataset.contains("plan")) {
        training.datasets.emplace(name, Dataset::from_json(dataset.at("plan")));
      }
    }
    training.framework = params.at("framework");
    std::string from = params.at("resume_from_checkpoint");
    try {
      if (!from.empty()) training.resume_from_checkpoint = Checkpoint::open(from);
    } catch (const Error& error) {  // only matters if the run has no checkpoint of its own
      training.resume_error = str("the checkpoint that the run began with: ", error.what());
    }
    training.restore_from = std::filesystem::absolute(run_folder).lexically_normal().string();
    return training;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCorrupt,
                str("'", run_folder, "/params.json' is damaged: ", error.what()));
  }
}

}  // namespace manta::train
