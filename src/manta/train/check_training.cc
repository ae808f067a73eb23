#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/init.h"
#include "manta/core/node.h"
#include "manta/core/resources_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/run_storage_internal.h"
#include "manta/train/session_internal.h"
#include "manta/train/stop_criteria_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

// A run starts its processes from the driver. The error comes before there is a folder, which would
// keep the run's name from being used.
void check_driver(const Training& training) {
  Client::current((training.trainer + "::fit").c_str());  // throws if there is no manta::init
  try {
    current_session_folder();
  } catch (const Error&) {
    throw Error(ErrorKind::kInvalidArgument,
                str(training.trainer,
                    "::fit was called in a task, an actor or a training loop; call it in the "
                    "driver, the program that called manta::init"));
  }
}

}  // namespace

namespace {

// Empty if the nodes can hold this many workers; otherwise the reason.
std::string why_impossible(const ScalingConfig& scaling, int workers, WhichNodes nodes) {
  AskPossible question;
  question.placement = scaling.placement_strategy;
  question.nodes = nodes;
  question.asked.assign(static_cast<size_t>(workers), {resources_of_worker(scaling), {}});
  return Client::current("fit")->ask(std::move(question)).text;
}

}  // namespace

void check_capacity(const ScalingConfig& scaling, WhichNodes nodes) {
  if (runs_in_driver(scaling)) return;
  int workers = scaling.min_workers > 0 ? scaling.min_workers : scaling.num_workers;
  std::string why = why_impossible(scaling, workers, nodes);
  if (why.empty()) return;
  Resources each = resources_of_worker(scaling);
  auto all = manta::nodes();
  if (all.size() == 1) why = str("there is only ", to_string(all.front().total));
  bool has_gpus =
      std::any_of(all.begin(), all.end(), [](auto& node) { return node.total.gpus > 0; });
  throw Error(ErrorKind::kResources,
              str("scaling_config asks for ", workers, workers == 1 ? " worker" : " workers",
                  " with ", to_string(each), " each, but ", why,
                  each.gpus > 0 && !has_gpus
                      ? ", and no GPU was found: set use_gpu = false, or, if there are GPUs that "
                        "the driver does not show, InitOptions::resources.gpus"
                      : ": set a smaller num_workers, or smaller resources_per_worker (such as "
                        "{.cpus = 0.5} to share processors)"));
}

int workers_for_now(const ScalingConfig& scaling) {
  if (runs_in_driver(scaling)) return 1;
  if (scaling.min_workers == 0) return scaling.num_workers;
  for (int workers = scaling.num_workers; workers >= scaling.min_workers; --workers) {
    if (why_impossible(scaling, workers, WhichNodes::kPresent).empty()) return workers;
  }
  return scaling.min_workers;  // the run then waits for a node, or is refused
}

Resources resources_of_worker(const ScalingConfig& scaling) {
  Resources resources = scaling.resources_per_worker;
  if (scaling.use_gpu && resources.gpus == 0) resources.gpus = 1;
  return resources;
}

void check_training(const Training& training) {
  const auto& run = training.run;
  if (training.scaling.num_workers < 0 || training.scaling.num_workers > kMostWorkers) {
    throw Error(ErrorKind::kInvalidArgument,
                training.scaling.num_workers < 0
                    ? str("scaling_config.num_workers must be at least 1, or 0 to run the loop in "
                          "this process (was ",
                          training.scaling.num_workers, ")")
                    : str("scaling_config.num_workers must be at most ", kMostWorkers, " (was ",
                          training.scaling.num_workers, ")"));
  }
  if (runs_in_driver(training.scaling) && resources_of_worker(training.scaling).gpus > 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("scaling_config.num_workers = 0 runs the loop in this process, to which no GPU "
                    "is assigned: leave ",
                    training.scaling.use_gpu ? "use_gpu" : "resources_per_worker.gpus",
                    " unset, or set num_workers = 1"));
  }
  if (training.scaling.min_workers < 0 ||
      training.scaling.min_workers > training.scaling.num_workers) {
    throw Error(ErrorKind::kInvalidArgument,
                str("scaling_config.min_workers must be from 0 to num_workers, ",
                    training.scaling.num_workers, " (was ", training.scaling.min_workers, ")"));
  }
  if (run.collective_timeout.count() <= 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.collective_timeout must be positive (was ",
                    run.collective_timeout.count(), " ms)"));
  }
  if (run.collective_timeout > kLongestTimeout) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.collective_timeout must be at most ten years (was ",
                    run.collective_timeout.count(), " ms)"));
  }
  if (run.stop_grace.count() < 0 || run.stop_grace > kLongestTimeout) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.stop_grace must be from 0 to ten years (was ",
                    run.stop_grace.count(), " ms)"));
  }
  run_address(run);
  if (run.storage_timeout.count() <= 0 || run.storage_timeout > kLongestTimeout) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.storage_timeout must be from 1 ms to ten years (was ",
                    run.storage_timeout.count(), " ms)"));
  }
  if (run.verbose < 0 || run.verbose > 3) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.verbose must be 0, 1, 2 or 3 (was ", run.verbose, ")"));
  }
  check_stop_criteria(run.stop);
  if (run.folder_mode < 0700 || run.folder_mode > 0777) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.folder_mode must be from 0700 to 0777 (was 0", std::oct,
                    run.folder_mode, ")"));
  }
  if (run.failure_config.max_failures < -1) {
    throw Error(ErrorKind::kInvalidArgument,
                str("failure_config.max_failures must be -1 (no limit) or more (was ",
                    run.failure_config.max_failures, ")"));
  }
  if (!training.config.is_object() && !training.config.is_null()) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("train_loop_config must be a JSON object; received ", short_text(training.config)));
  }
  bool learns = training.preprocessor && !training.preprocessor->is_fitted();
  bool comes_later = !training.required_datasets.empty() && training.datasets.empty();
  if (learns && !comes_later && !training.datasets.contains("train")) {
    throw Error(ErrorKind::kInvalidArgument,
                "a preprocessor learns from the data set 'train', which is not among `datasets`; "
                "add it, or give a preprocessor that is fitted");
  }
  for (const auto& callback : run.callbacks) {
    if (!callback) throw Error(ErrorKind::kInvalidArgument, "run_config.callbacks has a null");
  }
  check_checkpoint_config(run.checkpoint_config);
  const auto& checkpoints = run.checkpoint_config;
  bool has_schedule =
      checkpoints.checkpoint_frequency != 0 || checkpoints.checkpoint_at_end.has_value();
  if (has_schedule && !training.schedules_checkpoints) {
    throw Error(ErrorKind::kInvalidArgument,
                str("checkpoint_config.checkpoint_frequency and checkpoint_at_end cannot be set "
                    "for a ",
                    training.trainer,
                    ": its loop decides by giving a checkpoint to train::report, or not"));
  }
  check_resources(training.scaling.resources_per_worker, "scaling_config.resources_per_worker");
}

void check_start(const Training& training) {
  check_training(training);
  for (const std::string& name : training.required_datasets) {
    if (training.datasets.contains(name)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str(training.trainer, " needs a data set '", name, "' among `datasets`",
                    name == "train" ? ", or in fit(dataset)" : ""));
  }
  check_driver(training);
  if (runs_in_driver(training.scaling) && Session::current_or_null()) {
    throw Error(ErrorKind::kInvalidArgument,
                "scaling_config.num_workers = 0 runs a training loop in this process, which runs "
                "one already: wait for its end, or set num_workers = 1");
  }
  if (training.restore_from.empty()) check_capacity(training.scaling);
}

}  // namespace manta::train
