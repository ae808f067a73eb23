#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "manta/data/dataset.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/trainer.h"
#include "manta/tune/tunable.h"

namespace manta {

/// How the workers exchange gradients.
struct TorchConfig {
  /// "auto": shared memory between workers of one node, and Gloo between nodes; Gloo between all
  /// workers if a node has more than 512. "shm" or "gloo" force one.
  std::string backend = "auto";
};

struct TorchTrainerOptions {
  TrainLoop train_loop_per_worker = {};     ///< Required.
  Json train_loop_config = Json::object();  ///< Given to the loop.
  ScalingConfig scaling_config = {};
  RunConfig run_config = {};
  std::map<std::string, Dataset> datasets = {};  ///< For train::get_dataset_shard, by name.
  /// Fitted to the data set "train" and applied to all of them; part of each checkpoint.
  AnyPreprocessor preprocessor = {};
  TorchConfig torch_config = {};
  Checkpoint resume_from_checkpoint = {};  ///< What train::get_checkpoint returns at the start.
};

/// What a restored run may change. A field that is not set stays as it was.
struct TorchRestoreOptions {
  TrainLoop train_loop_per_worker = {};  ///< Required: code is not stored.
  std::optional<Json> train_loop_config = {};
  std::optional<ScalingConfig> scaling_config = {};
  std::optional<RunConfig> run_config = {};  ///< Its name and storage_path are ignored.
  /// Required for data sets that use functions without a name (see `named`), which are not stored.
  std::map<std::string, Dataset> datasets = {};
};

/// Runs one loop on every worker as a single data-parallel job.
class TorchTrainer final : public Trainer {
 public:
  /// Throws Error(kInvalidArgument) if the options contradict each other. Starts nothing.
  explicit TorchTrainer(TorchTrainerOptions options);
  /// A run whose driver died, or that was interrupted or failed. fit() resumes from its last
  /// checkpoint, at the row where it was, also with a different number of workers. If the run had
  /// finished, fit() returns its result. Throws Error(kNotFound) if there is no run at `path`.
  static TorchTrainer restore(const std::string& path, TorchRestoreOptions options);

  /// Its options as a Tuner searches them. What is not set is the trainer's own;
  /// `train_loop_config` is merged into the trainer's.
  struct Space {
    tune::Space train_loop_config = {};
    tune::ScalingSpace scaling_config = {};
    std::map<std::string, tune::Tunable<Dataset>> datasets = {};
    tune::Tunable<AnyPreprocessor> preprocessor = {};
    tune::Tunable<Checkpoint> resume_from_checkpoint = {};

    template <class Visit>
    void visit(Visit&& visit) {
      visit("train_loop_config", train_loop_config);
      visit("scaling_config", scaling_config);
      visit("datasets", datasets);
      visit("preprocessor", preprocessor);
      visit("resume_from_checkpoint", resume_from_checkpoint);
    }
  };
  /// A copy with these values, each of which is fixed, in the place of its own.
  TorchTrainer apply(const Space& values, const RunConfig& run_config) const;

  train::Training training() const override;

 private:
  explicit TorchTrainer(train::Training training);

  std::shared_ptr<const train::Training> training_;
};

}  // namespace manta
