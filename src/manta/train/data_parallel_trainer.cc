#include "manta/train/data_parallel_trainer.h"

#include "manta/base/error_internal.h"
#include "manta/train/data_parallel_internal.h"

namespace manta {

namespace train {
namespace {

void set_loop(Training& training, const TrainLoop& loop) {
  if (!loop) {
    throw Error(ErrorKind::kInvalidArgument,
                str(training.trainer, " needs a train_loop_per_worker"));
  }
  training.loop = loop.function();
  training.loop_takes_config = loop.takes_config();
}

}  // namespace

Training describe_loop(const std::string& trainer, DataParallelTrainerOptions options) {
  Training training;
  training.trainer = trainer;
  training.config = std::move(options.train_loop_config);
  training.scaling = std::move(options.scaling_config);
  training.run = std::move(options.run_config);
  training.datasets = std::move(options.datasets);
  training.preprocessor = std::move(options.preprocessor);
  training.resume_from_checkpoint = std::move(options.resume_from_checkpoint);
  set_loop(training, options.train_loop_per_worker);
  return training;
}

Training restore_loop(const std::string& run_folder, const std::string& trainer,
                      DataParallelRestoreOptions options) {
  Training training =
      restore_training(run_folder, trainer,
                       {std::move(options.train_loop_config), std::move(options.scaling_config),
                        std::move(options.run_config), std::move(options.datasets)});
  set_loop(training, options.train_loop_per_worker);
  return training;
}

}  // namespace train

namespace {
const char kDataParallelTrainer[] = "DataParallelTrainer";
}

DataParallelTrainer::DataParallelTrainer(DataParallelTrainerOptions options)
    : DataParallelTrainer(train::describe_loop(kDataParallelTrainer, std::move(options))) {}

DataParallelTrainer::DataParallelTrainer(train::Training training) {
  train::check_training(training);
  training_ = std::make_shared<train::Training>(std::move(training));
}

DataParallelTrainer DataParallelTrainer::restore(const std::string& path,
                                                 DataParallelRestoreOptions options) {
  return DataParallelTrainer(train::restore_loop(path, kDataParallelTrainer, std::move(options)));
}

train::Training DataParallelTrainer::training() const { return *training_; }

}  // namespace manta
