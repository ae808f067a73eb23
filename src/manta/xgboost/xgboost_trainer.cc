#include "manta/xgboost/xgboost_trainer.h"

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/train/training_internal.h"
#include "manta/xgboost/booster_internal.h"
#include "manta/xgboost/boosting_internal.h"
#include "manta/xgboost/training_matrix_internal.h"

namespace manta {
namespace {

const char kName[] = "XGBoostTrainer";

// Checks what is known about columns before the preprocessor is fitted and rows are read; the
// workers check the result.
void check_columns(const train::Training& training) {
  if (training.preprocessor || !training.datasets.contains("train")) return;
  auto train = data::schema_of(*training.datasets.at("train").plan());
  if (!train) return;
  auto columns = xgboost::TrainingColumns::of(*train, training.config.at("label_column"));
  for (const auto& [name, dataset] : training.datasets) {
    auto schema = data::schema_of(*dataset.plan());
    if (schema) columns.require_same(*schema, name);
  }
}

void check_resume(const train::Training& training, int rounds) {
  if (!training.resume_from_checkpoint) return;
  std::string path = training.resume_from_checkpoint.file(xgboost::kModelFile);
  int there = xgboost::Booster::load(path).rounds();
  if (there < rounds) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("resume_from_checkpoint: '", path, "' has ", there,
                  " rounds already, and num_boost_round, the rounds in all, is ", rounds,
                  ": set it to more"));
}

// Sets what is the same for a new run and a restored one.
void complete(train::Training& training) {
  JsonFields config(training.config, {"XGBoostTrainer", ErrorKind::kInvalidArgument});
  training.trainer = kName;
  training.loop = detail::make_function(&xgboost::boost);
  training.max_in_shared_memory = 0;  // the library has its own connections
  training.schedules_checkpoints = true;
  const auto& checkpoints = training.run.checkpoint_config;
  training.framework = {{"checkpoint_frequency", checkpoints.checkpoint_frequency},
                        {"checkpoint_at_end", checkpoints.checkpoint_at_end.value_or(true)}};
  if (config.text("label_column").empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "XGBoostTrainer needs a label_column, the column to predict");
  }
  int64_t rounds = config.integer("num_boost_round", INT_MIN, INT_MAX);
  if (rounds < 1) {
    throw Error(ErrorKind::kInvalidArgument,
                str("num_boost_round must be at least 1 (was ", rounds, ")"));
  }
  training.required_datasets = {"train"};
  train::check_training(training);
  xgboost::check_parameters(config.any("params"));
  check_columns(training);
  check_resume(training, static_cast<int>(rounds));
}

}  // namespace

XGBoostTrainer::XGBoostTrainer(XGBoostTrainerOptions options) {
  train::Training training;
  training.config = {{"params", std::move(options.params)},
                     {"label_column", std::move(options.label_column)},
                     {"num_boost_round", options.num_boost_round}};
  training.scaling = std::move(options.scaling_config);
  training.run = std::move(options.run_config);
  training.datasets = std::move(options.datasets);
  training.preprocessor = std::move(options.preprocessor);
  training.resume_from_checkpoint = std::move(options.resume_from_checkpoint);
  complete(training);
  training_ = std::make_shared<train::Training>(std::move(training));
}

XGBoostTrainer::XGBoostTrainer(train::Training training)
    : training_(std::make_shared<train::Training>(std::move(training))) {}

XGBoostTrainer XGBoostTrainer::restore(const std::string& path, XGBoostRestoreOptions options) {
  train::Training training = train::restore_training(path, kName,
                                                     {{},
                                                      std::move(options.scaling_config),
                                                      std::move(options.run_config),
                                                      std::move(options.datasets)});
  if (options.num_boost_round) training.config["num_boost_round"] = *options.num_boost_round;
  complete(training);
  return XGBoostTrainer(std::move(training));
}

XGBoostTrainerOptions XGBoostTrainer::options() const {
  return {.params = training_->config.at("params"),
          .label_column = training_->config.at("label_column"),
          .num_boost_round = training_->config.at("num_boost_round"),
          .datasets = training_->datasets,
          .scaling_config = training_->scaling,
          .run_config = training_->run,
          .preprocessor = training_->preprocessor,
          .resume_from_checkpoint = training_->resume_from_checkpoint};
}

XGBoostTrainer XGBoostTrainer::apply(const Space& values, const RunConfig& run_config) const {
  XGBoostTrainerOptions changed = options();
  changed.run_config = run_config;
  changed.params = tune::override_config(changed.params, values.params);
  changed.scaling_config = tune::override_scaling(changed.scaling_config, values.scaling_config);
  changed.num_boost_round = values.num_boost_round.value().value_or(changed.num_boost_round);
  for (const auto& [name, dataset] : values.datasets)
    changed.datasets.insert_or_assign(name, dataset.value().value());
  if (auto preprocessor = values.preprocessor.value()) changed.preprocessor = *preprocessor;
  if (auto from = values.resume_from_checkpoint.value()) changed.resume_from_checkpoint = *from;
  return XGBoostTrainer(std::move(changed));
}

void XGBoostTrainer::check(const train::Training& training) const {
  train::check_training(training);
  check_columns(training);
}

train::Training XGBoostTrainer::training() const { return *training_; }

}  // namespace manta
