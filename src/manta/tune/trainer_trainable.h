#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "manta/train/base_trainer.h"
#include "manta/tune/assignment.h"
#include "manta/tune/space.h"
#include "manta/tune/trainable.h"
#include "manta/tune/tunable.h"

namespace manta {

namespace tune {

/// A copy of the trainer with the values of an assignment, and a run_config, in place of its own.
template <std::derived_from<BaseTrainer> T>
T apply(const T& trainer, typename SpaceOf<T>::type space, const Assignment& assignment,
        const RunConfig& run_config) {
  fix(space, assignment);
  if constexpr (std::is_same_v<T, DataParallelTrainer>) {
    return override_trainer(trainer, space, run_config);
  } else {
    return trainer.apply(space, run_config);
  }
}

/// A trainer of any kind as one type. A Tuner takes it with a param_space of names, as in Ray's
/// dictionaries:
///
///     Tuner tuner(trainer.as_trainable(),
///                 {.param_space = {{"train_loop_config", {{"lr", tune::loguniform(1e-4, 1e-1)}}},
///                                  {"scaling_config", {{"num_workers", 2}}}}});
///
/// The names are those of the trainer's own Space. Numbers, texts and JSON can be searched; to
/// search over data sets, preprocessors or resources, give the Tuner the trainer itself.
class TrainerTrainable {
 public:
  template <std::derived_from<BaseTrainer> T>
  explicit TrainerTrainable(const T& trainer)
      : trainer_(std::make_shared<const T>(trainer)),
        understood_([](const Space& space) {
          return as_space(from_space<typename SpaceOf<T>::type>(space));
        }),
        make_([trainer](const Space& space, const Assignment& assignment, const RunConfig& run) {
          auto own = from_space<typename SpaceOf<T>::type>(space);
          return std::make_shared<const T>(apply(trainer, std::move(own), assignment, run));
        }) {}

  /// The trainer as it was given.
  const std::shared_ptr<const BaseTrainer>& trainer() const { return trainer_; }
  /// Throws Error(kInvalidArgument) if the space has a name that the trainer's Space does not have,
  /// or a value in place of an object.
  void check(const Space& space) const;
  /// The trainer with the values of an assignment and a run_config in place of its own.
  std::shared_ptr<const BaseTrainer> make(const Space& space, const Assignment& assignment,
                                          const RunConfig& run_config) const {
    return make_(space, assignment, run_config);
  }

 private:
  std::shared_ptr<const BaseTrainer> trainer_;
  std::function<Space(const Space&)> understood_;
  std::function<std::shared_ptr<const BaseTrainer>(const Space&, const Assignment&,
                                                   const RunConfig&)>
      make_;
};

/// For trainers of your own; Manta's trainers have a member function of that name.
template <std::derived_from<BaseTrainer> T>
TrainerTrainable as_trainable(const T& trainer) {
  return TrainerTrainable(trainer);
}

}  // namespace tune
}  // namespace manta
