#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "manta/core/archive_json.h"
#include "manta/core/function.h"
#include "manta/data/dataset.h"
#include "manta/train/config.h"
#include "manta/train/torch_config.h"

namespace manta {

struct TrainerOptions {
  /// 0 calls functions in this process; see ScalingConfig::num_workers.
  int num_workers = 1;
  bool use_gpu = false;                 ///< Gives each worker one GPU, besides its CPU.
  Resources resources_per_worker = {};  ///< Held from start() to shutdown(). Default: one CPU.
  /// How often, in each run, all workers are started again from the last checkpoint after a worker
  /// was lost. An exception of the function is not tried again. -1: without limit.
  int max_retries = 3;
  std::string name = {};  ///< The name of the folder of its runs. Default: made from the time.
  /// Where that folder is: a local folder, or an address as RunConfig::storage_path. Default:
  /// ~/manta_results.
  std::string storage_path = {};
  std::chrono::milliseconds storage_timeout =
      std::chrono::minutes(2);  ///< Of each run, as RunConfig::storage_timeout.
  /// Of each run, as RunConfig::collective_timeout and RunConfig::stop_grace.
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(5);
  std::chrono::milliseconds stop_grace = std::chrono::seconds(30);
  TorchConfig torch_config = {};  ///< With the backend "torch" only.
  int verbose = 1;                ///< As RunConfig::verbose.
};

struct TrainerRunOptions {
  std::map<std::string, Dataset> dataset = {};  ///< For train::get_dataset_shard, by name.
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  Checkpoint checkpoint = {};  ///< What train::get_checkpoint returns at the start.
  CheckpointConfig checkpoint_strategy = {};
};

namespace detail {

template <class F>
inline constexpr bool has_worker_signature =
    std::is_same_v<typename SignatureOf<F>::Parameters, std::tuple<>> ||
    std::is_same_v<typename SignatureOf<F>::Parameters, std::tuple<Json>>;

template <class F>
constexpr bool require_worker_function() {
  constexpr bool kFunction = is_function_pointer<F> || HasCallOperator<F>;
  static_assert(kFunction,
                "manta: Trainer::run takes a plain function or a lambda without captures, R() or "
                "R(const Json& config); a lambda's parameter needs a type (no `auto`)");
  if constexpr (kFunction) {
    constexpr bool kTravels = is_function_pointer<F> || std::is_empty_v<F>;
    static_assert(kTravels,
                  "manta: what Trainer::run calls runs in other processes, where what a lambda "
                  "captures does not exist. Give values in `config`, and take them from the "
                  "function's parameter: [](const Json& config) {...}");
    constexpr bool kSignature = has_worker_signature<F>;
    static_assert(kSignature,
                  "manta: what Trainer::run calls must be R() or R(const Json& config)");
    return kTravels && kSignature;
  } else {
    return false;
  }
}

}  // namespace detail

/// Starts workers, calls functions on all of them, and returns what each returned: the earlier
/// style of Ray Train. New programs should use TorchTrainer or DataParallelTrainer, whose runs can
/// also be restored and tuned.
///
///     Trainer trainer("torch", {.num_workers = 4});
///     trainer.start();
///     std::vector<double> losses = trainer.run(train_func, {{"lr", 1e-2}}, {.dataset = datasets});
///     trainer.shutdown();
///
/// `backend` is "torch", for programs that include manta/torch.h (the header registers it, before
/// main), or "none", for functions that need no framework.
///
/// The workers are processes that live from start() to shutdown(): the next function finds what the
/// one before left in global variables. If a worker is lost, or a function throws, all workers are
/// started anew for the next function.
///
/// A function may call everything in train/session.h. Each call of `run` is a run with a folder of
/// its own, <storage_path>/<name>/run_001, run_002, ...; the workers' output is in
/// <storage_path>/<name>/logs. If storage_path is an address, each run is stored there, as
/// RunConfig::storage_path says, while it goes on; `run` returns when all of it is stored. The
/// workers' output is then in a folder below ~/manta_results/.remote from start() to shutdown(); at
/// the end of a run, what they have written since the run before is stored with it, as
/// logs/rank-0.log and so on. A Trainer is for one thread at a time.
class Trainer {
 public:
  /// Throws Error(kInvalidArgument) for a backend that is not known, and for impossible options.
  explicit Trainer(const std::string& backend, TrainerOptions options = {});
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();  ///< Calls shutdown().

  /// Starts the workers and returns at once; they wait for resources that others hold. Throws
  /// Error(kResources) if the machine can never hold them; Error(kInvalidArgument) if a Trainer of
  /// that name has runs there; for an address, also Error(kNotFound) if its bucket does not exist,
  /// Error(kIo) if the store does not answer. Does nothing if they are started.
  void start();
  /// Calls `function` on every worker, `R()` or `R(const Json& config)`, and blocks until all have
  /// returned. Returns their results by rank, or nothing if R is void. R must be serialisable, like
  /// the result of a task. Throws as BaseTrainer::fit; Error(kInvalidArgument) before start();
  /// Error(kCancelled) if a callback stopped the run, so that the functions did not return.
  template <class F>
  auto run(F function, const Json& config = Json::object(), TrainerRunOptions options = {}) {
    if constexpr (detail::require_worker_function<F>()) {
      using R = typename detail::SignatureOf<F>::Result;
      auto values = run_function(detail::make_function(function),
                                 std::is_invocable_v<F, const Json&>, config, std::move(options));
      if constexpr (!std::is_void_v<R>) {
        std::vector<std::decay_t<R>> results;
        for (const auto& value : values)
          results.push_back(internal::from_value<std::decay_t<R>>(value));
        return results;
      }
    }
  }
  /// Ends the workers. Does nothing if there are none; start() starts others.
  void shutdown();

  /// The result of the last run. If the run failed, `error` says why. Throws Error(kNotFound) if
  /// there was no run. Reads the run's folder or, if all of it is stored at an address by now, the
  /// address: then also Error(kIo).
  Result latest_run() const;
  /// The folder of all its runs; made by start(), empty before. With an address as storage_path it
  /// is not a path but the address below which the runs are; nothing is there before the first run.
  std::string logdir() const;

 private:
  struct State;
  std::vector<internal::Value> run_function(const internal::Function& function, bool takes_config,
                                            const Json& config, TrainerRunOptions options);

  std::unique_ptr<State> state_;
};

}  // namespace manta
