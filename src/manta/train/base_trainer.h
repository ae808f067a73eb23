#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/data/dataset.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/config.h"
#include "manta/train/run_handle.h"

namespace manta {

namespace train {
class LastRun;
}

/// What all trainers have in common. A trainer is a value that only describes a run until fit() or
/// start() is called; each call is a run of its own.
///
/// | trainer | what it runs |
/// |---|---|
/// | DataParallelTrainer | a loop of yours on every worker, without a framework |
/// | TorchTrainer (manta/torch.h) | the same, with PyTorch's process groups between the workers |
/// | XGBoostTrainer (manta/xgboost.h) | gradient boosted trees |
class BaseTrainer {
 public:
  virtual ~BaseTrainer();
  /// The run that its options describe, checked. For code that builds on trainers of any framework,
  /// such as tuning (training_internal.h).
  virtual train::Training training() const = 0;

  /// Starts a run and returns at once. Several runs may be active; each waits for resources that
  /// others hold.
  RunHandle start() const;
  /// Blocks until the run ends. Throws the error of the worker that failed first, once
  /// `failure_config.max_failures` restarts are used up; Error(kCancelled) after Ctrl-C. Committed
  /// reports stay on disk.
  Result fit() const;
  /// The same with `dataset` as the data set "train", and with a preprocessor, in place of the
  /// trainer's own. Use `fit(dataset, preprocessor)` with a trainer that was given no data.
  Result fit(const Dataset& dataset, const AnyPreprocessor& preprocessor = {}) const;

  /// The checkpoints on disk, from the first to the latest, of the run that this trainer started
  /// last. The run may be going on, or have failed. Before the first start: those of the run that
  /// the trainer was restored from. A copy of a trainer has started no run. Any thread may call
  /// this. If RunConfig::storage_path is an address, these are the stored checkpoints; throws if
  /// the store does not answer.
  std::vector<Checkpoint> get_checkpoints() const;

  /// Whether there is a run at `path`, a folder or an address, that the `restore` of its trainer
  /// can take. Throws if a store does not answer.
  static bool can_restore(const std::string& path);

 protected:
  BaseTrainer();
  BaseTrainer(const BaseTrainer&);
  BaseTrainer& operator=(const BaseTrainer&);
  /// Throws Error(kInvalidArgument) if this trainer cannot run `training`, which is its own with
  /// other data.
  virtual void check(const train::Training& training) const;

 private:
  RunHandle start(train::Training training) const;

  std::shared_ptr<train::LastRun> last_run_;
};

}  // namespace manta
