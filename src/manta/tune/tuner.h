#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "manta/train/base_trainer.h"
#include "manta/train/config.h"
#include "manta/tune/result_grid.h"
#include "manta/tune/space.h"
#include "manta/tune/trainable.h"
#include "manta/tune/trainer_trainable.h"
#include "manta/tune/tunable.h"
#include "manta/tune/tune_config.h"

namespace manta {

/// What a Tuner searches, and how. Every field has a default.
template <class Space>
struct TunerOptions {
  /// For a trainer: its own options, each with a value, a choice or a grid in place of the
  /// trainer's value. For a function: the configuration that it gets.
  Space param_space = {};
  TuneConfig tune_config = {};
  /// `name`, `storage_path` and `verbose` are the experiment's. The other fields are for each
  /// trial; a field that is left at its default comes from the trainer's own run_config. Several
  /// trials call the callbacks at a time.
  ///
  /// If `storage_path` is an address, the experiment is stored there while it goes on, as
  /// RunConfig::storage_path says of a run: experiment.json, its journal and the checkpoints of
  /// functions' trials; each trial of a trainer is a run at an address below it.
  /// `storage_timeout` is for each of these runs and for the experiment itself.
  RunConfig run_config = {};
};

/// How an experiment goes on. A field that is not set stays as it was.
template <class Space>
struct TunerRestoreOptions {
  /// Required if the space holds objects such as data sets, or functions, which are not stored. It
  /// must be the same as it was.
  std::optional<Space> param_space = {};
  bool resume_errored = false;          ///< Trials that failed go on from their last checkpoint.
  std::optional<int> num_samples = {};  ///< More than before: the search goes on.
  /// Required if these were of your own, because code is not stored. Do not set them otherwise.
  std::optional<tune::AnySearcher> search_alg = {};
  std::optional<tune::AnyScheduler> scheduler = {};
  /// Replace the trainer's callbacks. They are not stored.
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  std::optional<bool> verbose = {};
  /// As RunConfig::storage_timeout, for an experiment that is stored at an address.
  std::optional<std::chrono::milliseconds> storage_timeout = {};
};

/// Runs a trainer, or calls a function, with many configurations, several at a time, and compares
/// what they report.
///
/// ```
/// Tuner tuner(trainer, {.param_space = {.params = {{"max_depth", tune::randint(1, 9)}}},
///                       .tune_config = {.metric = "train-logloss", .mode = "min", .num_samples =
///                       2}});
/// Result best_result = tuner.fit().get_best_result();
/// ```
///
/// A Tuner is a value that only describes an experiment until fit() is called; each call is an
/// experiment of its own.
class Tuner {
 public:
  /// `trainable` is a trainer, what its as_trainable() returns, or a function as tune::Trainable
  /// says. Throws
  /// Error(kInvalidArgument) if the options make no sense. Starts nothing.
  template <class T>
  requires(!std::is_same_v<T, Tuner>) explicit Tuner(
      T trainable, TunerOptions<typename tune::SpaceOf<T>::type> options = {})
      : Tuner(parts_of(std::move(trainable), options.param_space), std::move(options.tune_config),
              std::move(options.run_config)) {}

  /// An experiment whose driver died, or that was interrupted. fit() resumes it: trials that have
  /// ended are not run again; trials that were running go on from their last checkpoint. If the
  /// experiment had ended, fit() returns its results. `path` is a folder, or an address: then fit()
  /// takes the experiment over, and a driver that still runs it ends with an error. Throws
  /// Error(kNotFound) if there is no experiment at `path`; for an address, also Error(kIo).
  template <class T>
  static Tuner restore(const std::string& path, T trainable,
                       TunerRestoreOptions<typename tune::SpaceOf<T>::type> options = {}) {
    using Space = typename tune::SpaceOf<T>::type;
    Space space =
        options.param_space ? *options.param_space : tune::from_space<Space>(stored_space(path));
    return Tuner(path, parts_of(std::move(trainable), space),
                 {options.resume_errored, options.num_samples, std::move(options.search_alg),
                  std::move(options.scheduler), std::move(options.callbacks), options.verbose,
                  options.storage_timeout});
  }
  /// Whether there is an experiment at `path`. For an address: throws Error(kInvalidArgument) if
  /// access is refused, Error(kIo).
  static bool can_restore(const std::string& path);

  /// Blocks until the experiment ends. A trial that fails does not end it: see ResultGrid::errors.
  /// Throws Error(kCancelled) after Ctrl-C; `restore` resumes the experiment. With an address,
  /// returns when everything is stored; otherwise Error(kIo) says what is not stored, and where it
  /// is.
  ResultGrid fit() const;

 private:
  using MakeTrainer =
      std::function<std::shared_ptr<const BaseTrainer>(const tune::Assignment&, const RunConfig&)>;
  struct Parts {
    tune::Space space;
    std::optional<tune::Trainable> function;
    MakeTrainer make_trainer;                    // if there is no function
    std::shared_ptr<const BaseTrainer> trainer;  // as it was given
  };
  struct Changes {
    bool resume_errored = false;
    std::optional<int> num_samples;
    std::optional<tune::AnySearcher> search_alg;
    std::optional<tune::AnyScheduler> scheduler;
    std::vector<std::shared_ptr<Callback>> callbacks;
    std::optional<bool> verbose;
    std::optional<std::chrono::milliseconds> storage_timeout;
  };
  struct State;

  template <class T>
  static Parts parts_of(T trainable, const typename tune::SpaceOf<T>::type& space) {
    Parts parts;
    if constexpr (std::derived_from<T, BaseTrainer>) {
      parts.space = tune::as_space(space);
      parts.trainer = std::make_shared<T>(trainable);
      parts.make_trainer = [trainable, space](const tune::Assignment& assignment,
                                              const RunConfig& run) {
        return std::make_shared<const T>(tune::apply(trainable, space, assignment, run));
      };
    } else if constexpr (std::is_same_v<T, tune::TrainerTrainable>) {
      trainable.check(space);
      parts.space = space;
      parts.trainer = trainable.trainer();
      parts.make_trainer = [trainable, space](const tune::Assignment& assignment,
                                              const RunConfig& run) {
        return trainable.make(space, assignment, run);
      };
    } else {
      parts.space = space;
      parts.function = tune::Trainable(std::move(trainable));
    }
    return parts;
  }
  Tuner(Parts parts, TuneConfig tune_config, RunConfig run_config);
  Tuner(const std::string& path, Parts parts, Changes changes);
  static tune::Space stored_space(const std::string& path);

  std::shared_ptr<const State> state_;
};

}  // namespace manta
