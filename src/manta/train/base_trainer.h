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
  /// The run that its options amount to, checked. For what builds on trainers of any framework,
  /// such as tuning (training_internal.h).
  virtual train::Training training() const = 0;

  /// Starts a run and returns at once. Several runs may be active; each waits for resources that
  /// others hold.
  RunHandle start() const;
  /// Blocks until the run ends. Throws the error of the worker that failed first, once
  /// `failure_config.max_failures` restarts are used up; Error(kCancelled) after Ctrl-C. Committed
  /// reports stay on disk.
  Result fit() const;
  /// The same with `dataset` as the data set "train", and with a preprocessor, in the place of
  /// those that the trainer has. `fit(dataset, preprocessor)` is how a trainer that was given no
  /// data is used.
  Result fit(const Dataset& dataset, const AnyPreprocessor& preprocessor = {}) const;

  /// The checkpoints, from the first to the latest, that are on disk of the run that this trainer
  /// started last, also while it goes on and after it has failed; before that, of the run that it
  /// was restored from. A copy of a trainer has started none. Any thread may call it. If
  /// RunConfig::storage_path is an address: those that are stored; throws if the store does not
  /// answer.
  std::vector<Checkpoint> get_checkpoints() const;

  /// Whether there is a run at `path`, a folder or an address, for the `restore` of the trainer
  /// that started it. Throws if a store does not answer.
  static bool can_restore(const std::string& path);

 protected:
  BaseTrainer();
  BaseTrainer(const BaseTrainer&);
  BaseTrainer& operator=(const BaseTrainer&);
  /// Throws Error(kInvalidArgument) if `training`, this trainer's own with other data, makes no
  /// sense to it.
  virtual void check(const train::Training& training) const;

 private:
  RunHandle start(train::Training training) const;

  std::shared_ptr<train::LastRun> last_run_;
};

}  // namespace manta
