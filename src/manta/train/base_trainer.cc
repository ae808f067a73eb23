#include "manta/train/base_trainer.h"

#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/remote_run_internal.h"
#include "manta/train/training_internal.h"

namespace manta {

BaseTrainer::BaseTrainer() : last_run_(std::make_shared<train::LastRun>()) {}
BaseTrainer::BaseTrainer(const BaseTrainer&) : BaseTrainer() {}
BaseTrainer& BaseTrainer::operator=(const BaseTrainer&) {
  last_run_ = std::make_shared<train::LastRun>();
  return *this;
}
BaseTrainer::~BaseTrainer() = default;

RunHandle BaseTrainer::start() const { return start(training()); }

RunHandle BaseTrainer::start(train::Training training) const {
  training.last_run = last_run_;
  return RunHandle(std::move(training));
}

Result BaseTrainer::fit() const { return start().result(); }

Result BaseTrainer::fit(const Dataset& dataset, const AnyPreprocessor& preprocessor) const {
  train::Training given = training();
  given.datasets.insert_or_assign("train", dataset);
  if (preprocessor) given.preprocessor = preprocessor;
  check(given);
  return start(std::move(given)).result();
}

void BaseTrainer::check(const train::Training& training) const { train::check_training(training); }

std::vector<Checkpoint> BaseTrainer::get_checkpoints() const {
  std::string path = last_run_->get();
  if (path.empty()) path = training().restore_from;
  std::vector<Checkpoint> checkpoints;
  if (path.empty() || !can_restore(path)) return checkpoints;
  if (auto address = remote_address(path)) {
    for (auto& [index, checkpoint] : train::RemoteRun::checkpoints(*address))
      checkpoints.push_back(std::move(checkpoint));
    return checkpoints;
  }
  for (const auto& [checkpoint, metrics] : train::CheckpointStore(path, {}).best_checkpoints())
    checkpoints.push_back(checkpoint);
  return checkpoints;
}

bool BaseTrainer::can_restore(const std::string& path) { return train::is_run_folder(path); }

}  // namespace manta
