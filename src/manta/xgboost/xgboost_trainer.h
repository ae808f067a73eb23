#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "manta/data/dataset.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/base_trainer.h"
#include "manta/tune/trainer_trainable.h"

namespace manta {

struct XGBoostTrainerOptions {
  /// XGBoost's own parameters, by its names: `{{"objective", "binary:logistic"}, {"eval_metric",
  /// {"logloss", "error"}}}`. Three have other defaults here: `nthread` is what a worker was
  /// granted, `seed_per_iteration` and `validate_parameters` are true.
  Json params = Json::object();
  std::string label_column = {};  ///< Required. All other columns of the data are features.
  /// Rounds in all, those of `resume_from_checkpoint` included.
  int num_boost_round = 10;
  /// "train" is required, here or in fit(dataset). The model is evaluated on each of them after
  /// every round.
  std::map<std::string, Dataset> datasets = {};
  ScalingConfig scaling_config = {};
  /// `checkpoint_config.checkpoint_frequency` says how often there is a checkpoint. Default: one,
  /// after the last round.
  RunConfig run_config = {};
  /// Fitted to "train" and applied to all data sets; part of each checkpoint.
  AnyPreprocessor preprocessor = {};
  Checkpoint resume_from_checkpoint = {};  ///< A model to go on with, of the same columns.
};

/// What a restored run may change. A field that is not set stays as it was.
struct XGBoostRestoreOptions {
  std::optional<int> num_boost_round = {};
  std::optional<ScalingConfig> scaling_config = {};
  std::optional<RunConfig> run_config = {};  ///< Its name and storage_path are ignored.
  /// Required for data sets that use functions without a name (see `named`), which are not stored.
  std::map<std::string, Dataset> datasets = {};
};

/// Trains gradient boosted trees with XGBoost, on one worker or several. Each worker reads its part
/// of the rows once and keeps it in XGBoost's own form; the workers add up the histograms of
/// their parts through XGBoost's own communicator. Each round is a report, with the metrics of all
/// data sets under XGBoost's names: "train-logloss", "valid-error".
///
///     XGBoostTrainer trainer({.params = {{"objective", "binary:logistic"}},
///                             .label_column = "target",
///                             .datasets = {{"train", train_set}, {"valid", valid_set}},
///                             .scaling_config = {.num_workers = 2}});
///     Result result = trainer.fit();
///
/// Columns must be numbers or booleans; nulls and NaN are missing values. A checkpoint holds
/// model.ubj, which XGBoost reads in any language.
class XGBoostTrainer final : public BaseTrainer {
 public:
  /// Throws Error(kInvalidArgument) if the options contradict each other, for a parameter or value
  /// that XGBoost does not know (with XGBoost's message), and for parameters that XGBoost would not
  /// use. If the columns are known without reading rows, they are checked, too. Starts nothing.
  explicit XGBoostTrainer(XGBoostTrainerOptions options);
  /// A run whose driver died, or that was interrupted or failed. fit() resumes after its last
  /// checkpoint, or from the beginning if it has none. If the run had finished, fit() returns its
  /// result. Throws Error(kNotFound) if there is no run at `path`.
  static XGBoostTrainer restore(const std::string& path, XGBoostRestoreOptions options = {});

  /// Its options as a Tuner searches them. An option that is not set keeps the trainer's own value;
  /// `params` are merged into the trainer's.
  struct Space {
    tune::ScalingSpace scaling_config = {};
    tune::Tunable<AnyPreprocessor> preprocessor = {};
    tune::Space params = {};
    tune::Tunable<int> num_boost_round = {};
    std::map<std::string, tune::Tunable<Dataset>> datasets = {};
    tune::Tunable<Checkpoint> resume_from_checkpoint = {};

    template <class Visit>
    void visit(Visit&& visit) {
      visit("scaling_config", scaling_config);
      visit("preprocessor", preprocessor);
      visit("params", params);
      visit("num_boost_round", num_boost_round);
      visit("datasets", datasets);
      visit("resume_from_checkpoint", resume_from_checkpoint);
    }
  };
  /// A copy with these values, each of which must be fixed, in place of its own.
  XGBoostTrainer apply(const Space& values, const RunConfig& run_config) const;

  /// This trainer as a Tuner takes it with a space of names (tune/trainer_trainable.h).
  tune::TrainerTrainable as_trainable() const { return tune::as_trainable(*this); }

  /// Use them to make another trainer, with some of them changed.
  XGBoostTrainerOptions options() const;
  train::Training training() const override;

 protected:
  void check(const train::Training& training) const override;

 private:
  explicit XGBoostTrainer(train::Training training);

  std::shared_ptr<const train::Training> training_;
};

}  // namespace manta
