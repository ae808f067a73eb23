#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "manta/data/dataset.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/base_trainer.h"
#include "manta/train/train_loop.h"

namespace manta {

namespace tune {
class TrainerTrainable;
}

struct DataParallelTrainerOptions {
  TrainLoop train_loop_per_worker = {};     ///< Required.
  Json train_loop_config = Json::object();  ///< Given to the loop.
  ScalingConfig scaling_config = {};
  RunConfig run_config = {};
  std::map<std::string, Dataset> datasets = {};  ///< For train::get_dataset_shard, by name.
  /// Fitted to the data set "train" and applied to all of them; part of each checkpoint.
  AnyPreprocessor preprocessor = {};
  Checkpoint resume_from_checkpoint = {};  ///< What train::get_checkpoint returns at the start.
};

/// What a restored run may change. A field that is not set stays as it was.
struct DataParallelRestoreOptions {
  TrainLoop train_loop_per_worker = {};  ///< Required: code is not stored.
  std::optional<Json> train_loop_config = {};
  std::optional<ScalingConfig> scaling_config = {};
  std::optional<RunConfig> run_config = {};  ///< Its name and storage_path are ignored.
  /// Required for data sets that use functions without a name (see `named`), which are not stored.
  std::map<std::string, Dataset> datasets = {};
};

/// Runs one loop on every worker as a single data-parallel job, without a framework: each worker
/// gets its part of the data sets, reports together with the others, and is restarted with them
/// from the last checkpoint. How the workers exchange what they learn is up to the loop.
///
///     void count(const Json& config) {
///       int64_t rows = 0;
///       for (auto& batch : train::get_dataset_shard("train").iter_batches({.batch_size = 64}))
///         rows += batch->num_rows();
///       train::report({{"rows", rows}});
///     }
///     DataParallelTrainer trainer({.train_loop_per_worker = count,
///                                  .scaling_config = {.num_workers = 2},
///                                  .datasets = {{"train", dataset}}});
///     Result result = trainer.fit();
class DataParallelTrainer : public BaseTrainer {
 public:
  /// Throws Error(kInvalidArgument) if the options contradict each other. Starts nothing.
  explicit DataParallelTrainer(DataParallelTrainerOptions options);
  /// A run whose driver died, or that was interrupted or failed. fit() resumes from its last
  /// checkpoint, at the row where it was, also with a different number of workers. If the run had
  /// finished, fit() returns its result. `path` is a run folder or, from any machine, the address
  /// of a run. If another driver still runs that run, this trainer takes it over, and the other
  /// driver ends with an error. Throws Error(kNotFound) if there is no run at `path`.
  static DataParallelTrainer restore(const std::string& path, DataParallelRestoreOptions options);

  /// This trainer as a Tuner takes it with a space of names (tune/trainer_trainable.h). A Tuner
  /// also takes the trainer itself.
  tune::TrainerTrainable as_trainable() const;

  /// For a run that is described already, and for classes that build on trainers. Throws as the
  /// other constructor.
  explicit DataParallelTrainer(train::Training training);
  train::Training training() const override;

 private:
  std::shared_ptr<const train::Training> training_;
};

}  // namespace manta
