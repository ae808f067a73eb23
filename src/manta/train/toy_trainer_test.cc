// A trainer of another framework, in one file: it adds only the name of its loop.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/base_trainer.h"
#include "manta/train/session.h"
#include "manta/train/train_loop.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

class ToyTrainer final : public BaseTrainer {
 public:
  ToyTrainer(TrainLoop loop, const Json& config, const RunConfig& run) {
    training_.trainer = "ToyTrainer";
    training_.config = config;
    training_.run = run;
    set_loop(loop);
  }

  static ToyTrainer restore(const std::string& path, TrainLoop loop,
                            const RestoreChanges& changes = {}) {
    ToyTrainer trainer(loop, {}, {});
    trainer.training_ = restore_training(path, "ToyTrainer", changes);
    trainer.set_loop(loop);
    return trainer;
  }

  Training training() const override { return training_; }

 private:
  void set_loop(const TrainLoop& loop) {
    training_.loop = loop.function();
    training_.loop_takes_config = loop.takes_config();
  }

  Training training_;
};

// Counts to config["limit"]; breaks at config["break_at"].
void count_up(const Json& config) {
  Checkpoint from = get_checkpoint();
  std::string files = get_context().run_folder + "/mine";
  std::filesystem::create_directories(files);
  for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < config.at("limit"); ++n) {
    if (config.value("break_at", -1) == n) throw std::runtime_error("broken");
    std::ofstream(files + "/state") << n;
    train::report({{"n", n}}, files);
  }
}

TEST(ToyTrainerTest, RunsFailsAndIsRestored) {
  TemporaryFolder storage;
  RunConfig run{.name = "toy", .storage_path = storage.path(), .verbose = false};
  ToyTrainer trainer(count_up, {{"limit", 5}, {"break_at", 2}}, run);
  EXPECT_THAT(message_of([&] { trainer.fit(); }), HasSubstr("broken"));

  std::string path = storage / "toy";
  ASSERT_TRUE(BaseTrainer::can_restore(path));
  RestoreChanges mended{.config = Json{{"limit", 4}}, .scaling = {}, .run = {}, .datasets = {}};
  Result result = ToyTrainer::restore(path, count_up, mended).fit();
  EXPECT_EQ(result.metrics.at("n"), 3);
  EXPECT_EQ(result.metrics_history.size(), 4u);
}

TEST(ToyTrainerTest, AnothersRunIsRefused) {
  TemporaryFolder storage;
  RunConfig run{.name = "toy", .storage_path = storage.path(), .verbose = false};
  ToyTrainer(count_up, {{"limit", 1}}, run).fit();
  EXPECT_THAT(message_of([&] { restore_training(storage / "toy", "OtherTrainer", {}); }),
              HasSubstr("is of a ToyTrainer, not of a OtherTrainer"));
  EXPECT_THAT(message_of([&] { restore_training(storage / "none", "ToyTrainer", {}); }),
              HasSubstr("is no run folder"));
  EXPECT_FALSE(BaseTrainer::can_restore(storage / "none"));
}

// As tuning does: sets other values for some options, in a copy.
TEST(ToyTrainerTest, TrainingIsACopyThatCanBeOverridden) {
  TemporaryFolder storage;
  const ToyTrainer trainer(count_up, {{"limit", 1}},
                           {.name = "one", .storage_path = storage.path(), .verbose = false});
  Training other = static_cast<const BaseTrainer&>(trainer).training();
  other.config["limit"] = 3;
  other.run.name = "other";
  EXPECT_EQ(run_training(other).metrics.at("n"), 2);
  EXPECT_EQ(trainer.fit().metrics.at("n"), 0);
}

}  // namespace
}  // namespace manta::train
