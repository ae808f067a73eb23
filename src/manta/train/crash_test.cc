// What a run says when one of its processes crashes.

#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/sources.h"
#include "manta/train/file_internal.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

// Not in an anonymous namespace: their names are what the tests look for.
namespace crashing {

int* volatile nowhere = nullptr;

[[gnu::noinline]] int write_in_the_loop(int value) {
  *nowhere = value;
  return value + 1;
}
[[gnu::noinline]] int64_t write_in_the_reader(int64_t value) {
  *nowhere = static_cast<int>(value);
  return value + 1;
}

}  // namespace crashing

namespace manta::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "sanitizers report crashes in their own way"
#else
#define SKIP_UNDER_SANITIZERS()
#endif

void crash_on_rank_1() {
  if (get_context().world_rank == 1) crashing::write_in_the_loop(1);
  train::report({{"n", 1}});
}

TEST(TrainCrashTest, OfARankIsInTheErrorAndInItsLog) {
  SKIP_UNDER_SANITIZERS();
  TemporaryFolder storage;
  Training training = test_training(storage.path(), crash_on_rank_1);
  training.scaling.num_workers = 2;
  training.scaling.resources_per_worker.cpus = 0.5;
  std::string log = storage / "toy/logs/rank-1.log";
  EXPECT_THAT(message_of([&] { run_training(training); }),
              AllOf(HasSubstr("rank 1 failed"), HasSubstr("SIGSEGV"),
                    HasSubstr("crashing::write_in_the_loop(int)"), HasSubstr("its log: " + log)));
  EXPECT_THAT(read_text(log),
              AllOf(HasSubstr("SIGSEGV"), HasSubstr("crashing::write_in_the_loop(int)"),
                    HasSubstr("crash_on_rank_1()")));
}

void read_rows() {
  for (const auto& batch : get_dataset_shard("train").iter_batches({.batch_size = 8}))
    train::report({{"rows", batch->num_rows()}});
}

TEST(TrainCrashTest, OfAFunctionInTheDataReaderIsInTheErrorAndInItsLog) {
  SKIP_UNDER_SANITIZERS();
  TemporaryFolder storage;
  Training training = test_training(storage.path(), read_rows);
  training.datasets = {{"train", data::range(100).map_batches([](const data::BatchPtr& batch) {
                          crashing::write_in_the_reader(batch->num_rows());
                          return batch;
                        })}};
  std::string log = storage / "toy/logs/data-reader.log";
  EXPECT_THAT(
      message_of([&] { run_training(training); }),
      AllOf(HasSubstr("the data reader failed"), HasSubstr("SIGSEGV"),
            HasSubstr("crashing::write_in_the_reader(long)"), HasSubstr("its log: " + log)));
  EXPECT_THAT(read_text(log),
              AllOf(HasSubstr("SIGSEGV"), HasSubstr("crashing::write_in_the_reader(long)")));
}

}  // namespace
}  // namespace manta::train
