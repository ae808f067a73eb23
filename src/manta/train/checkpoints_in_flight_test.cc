// Checkpoints that are written while the loop goes on, and how many there are at a time.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

bool is_committed(int64_t index) {
  return fs::exists(str(get_context().run_folder, "/", checkpoint_name(index)));
}

// A disk that takes nothing until `opens` says so.
class SlowDisk final : public CheckpointSource {
 public:
  SlowDisk(int64_t index, std::function<bool()> opens) : index_(index), opens_(std::move(opens)) {}
  void stage() override { staged_with_ = index_; }
  void write(CheckpointFolder& folder) override {
    if (!eventually(opens_)) throw std::runtime_error("the disk never opened");
    folder.write("state", std::to_string(staged_with_));
  }

 private:
  int64_t index_, staged_with_ = -1;
  std::function<bool()> opens_;
};

Training in_flight_training(const TemporaryFolder& storage, TrainLoop loop, int max_in_flight) {
  Training training = test_training(storage.path(), loop, {{"max_in_flight", max_in_flight}});
  training.run.checkpoint_config.max_in_flight = max_in_flight;
  return training;
}

// The disk takes nothing before the loop has made as many reports as may be on their way, and some
// without a checkpoint.
void run_ahead_of_the_disk(const Json& config) {
  int64_t most = config.at("max_in_flight");
  auto ahead = std::make_shared<std::atomic<bool>>(false);
  for (int64_t i = 0; i < most; ++i) {
    report({{"i", i}}, std::make_shared<SlowDisk>(i, [ahead] { return ahead->load(); }));
  }
  for (int64_t i = most; i < most + 10; ++i) report({{"i", i}});
  if (is_committed(0)) throw std::runtime_error("the disk was too fast");
  *ahead = true;
  // From here on each report waits for the oldest.
  for (int64_t i = most + 10; i < most + 20; ++i) {
    report({{"i", i}}, std::make_shared<SlowDisk>(i, [] { return true; }));
    int64_t oldest = i - most >= most + 10 ? i - most : 0;
    if (!is_committed(oldest)) throw std::runtime_error(str("report ", i, " came too early"));
  }
}

TEST(CheckpointsInFlightTest, ASlowDiskDoesNotHoldUpTheLoop) {
  for (int most : {1, 2, 5}) {
    TemporaryFolder storage;
    Result result = run_training(in_flight_training(storage, run_ahead_of_the_disk, most));
    ASSERT_EQ(result.metrics_history.size(), static_cast<size_t>(most) + 20);
    for (size_t i = 0; i < result.metrics_history.size(); ++i)
      EXPECT_EQ(result.metrics_history[i].at("i"), i);  // committed in order
    for (const auto& [checkpoint, metrics] : result.best_checkpoints) {
      std::string state;
      std::ifstream(checkpoint.file("state")) >> state;
      EXPECT_EQ(state, std::to_string(metrics.at("i").get<int>()));
    }
  }
}

// Takes long for many parts; or hangs in the second.
class SteadyDisk final : public CheckpointSource {
 public:
  explicit SteadyDisk(bool stands_still) : stands_still_(stands_still) {}
  void stage() override {}
  void write(CheckpointFolder& folder) override {
    for (int part = 0; part < 50; ++part) {
      folder.write(str("part-", part), "state");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      while (stands_still_) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  }

 private:
  bool stands_still_;
};

// Rank 1 waits while rank 0 writes.
void write_for_long(const Json& config) {
  std::shared_ptr<CheckpointSource> checkpoint;
  if (get_context().world_rank == 0)
    checkpoint = std::make_shared<SteadyDisk>(config.at("stands_still").get<bool>());
  report({{"n", 0}}, checkpoint);
}

Training writing_for_long(const TemporaryFolder& storage, bool stands_still) {
  Training training =
      test_training(storage.path(), write_for_long, {{"stands_still", stands_still}});
  training.scaling.num_workers = 2;
  training.scaling.resources_per_worker.cpus = 0.5;
  training.run.collective_timeout = std::chrono::seconds(3);
  return training;
}

TEST(CheckpointsInFlightTest, ADiskMayTakeLongerThanTheTimeoutIfItGetsOn) {
  TemporaryFolder storage;
  Result result = run_training(writing_for_long(storage, false));
  EXPECT_EQ(result.checkpoint.files().size(), 50u);
}

TEST(CheckpointsInFlightTest, ADiskThatStandsStillIsAnError) {
  TemporaryFolder storage;
  EXPECT_THAT(message_of([&] { run_training(writing_for_long(storage, true)); }),
              HasSubstr("waited 3000 ms for report 0, of whose checkpoint nothing was written"));
}

// The worker is killed with two checkpoints in flight: the run goes on from the last that was
// committed.
void die_with_two_in_flight() {
  Checkpoint from = get_checkpoint();
  int64_t first = from ? from.metrics().at("i").get<int64_t>() + 1 : 0;
  for (int64_t i = first; i < 6; ++i) {
    bool stuck = get_context().attempt == 0 && i >= 3;
    report({{"i", i}, {"from", first}}, std::make_shared<SlowDisk>(i, [stuck] { return !stuck; }));
    if (stuck && i == 4) {
      eventually([] { return is_committed(2); });
      ::raise(SIGKILL);
    }
  }
}

TEST(CheckpointsInFlightTest, ThoseThatWereNotWrittenAreMadeAgainAfterAKill) {
  TemporaryFolder storage;
  Training training = in_flight_training(storage, die_with_two_in_flight, 2);
  training.run.failure_config.max_failures = 1;
  Result result = run_training(training);
  std::vector<int> from;
  for (const Json& metrics : result.metrics_history) from.push_back(metrics.at("from"));
  EXPECT_THAT(from, ElementsAre(0, 0, 0, 3, 3, 3));
  EXPECT_FALSE(fs::exists(result.path + "/.staging"));
}

TEST(CheckpointsInFlightTest, TheirNumberIsChecked) {
  TemporaryFolder storage;
  for (int most : {0, -1, kMostInFlight + 1}) {
    Training training = in_flight_training(storage, run_ahead_of_the_disk, most);
    EXPECT_THAT(message_of([&] { run_training(training); }),
                HasSubstr("max_in_flight must be from 1 to 1000"));
  }
}

}  // namespace
}  // namespace manta::train
