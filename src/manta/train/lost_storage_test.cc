// Storage that cannot be written to, or goes away while a run writes to it.

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/callback.h"
#include "manta/train/data_parallel_trainer.h"
#include "manta/train/run_folder_internal.h"
#include "manta/train/session.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A child process mounts it, so that no other process sees it.
TEST(LostStorageTest, AReadOnlyOneIsAnErrorThatNamesIt) {
  TemporaryFolder storage;
  int text[2];
  ASSERT_EQ(::pipe(text), 0);
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", storage.path().c_str(), "tmpfs", MS_RDONLY, nullptr) != 0) {
      ::_exit(77);
    }
    std::string said =
        message_of([&] { RunFolder::create({.name = "run", .storage_path = storage.path()}, {}); });
    ::_exit(::write(text[1], said.data(), said.size()) < 0 ? 1 : 0);
  }
  ::close(text[1]);
  char said[4096];
  ssize_t size = ::read(text[0], said, sizeof(said));
  ::close(text[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "this process may not mount anything";
  ASSERT_GT(size, 0);
  EXPECT_THAT(std::string(said, static_cast<size_t>(size)),
              AllOf(HasSubstr(storage / "run"), HasSubstr("Read-only file system")));
}

void report_values() {
  for (int n = 0; n < 1000; ++n)
    train::report({{"n", n}}, Checkpoint::from_dict({.values = {{"n", n}}}));
}

void report_numbers() {
  for (int n = 0; n < 1000; ++n) train::report({{"n", n}});
}

// Moves the folder away at once: a worker may be writing its next checkpoint, and removing a folder
// file by file fails if files are written to it meanwhile.
struct MovesTheFolderAway : Callback {
  Decision on_report(const RunInfo& run, const ReportRecord& report) override {
    if (report.index == 3) std::filesystem::rename(run.path, run.path + ".elsewhere");
    return Decision::go_on();
  }
};

TEST(LostStorageTest, OneThatVanishesEndsTheRunWithAnErrorThatNamesIt) {
  TemporaryFolder storage;
  DataParallelTrainerOptions options{
      .train_loop_per_worker = report_values,
      .run_config = {.name = "run",
                     .storage_path = storage.path(),
                     .verbose = 0,
                     .callbacks = {std::make_shared<MovesTheFolderAway>()}}};
  for (auto loop : {report_values, report_numbers}) {
    for (int max_failures : {0, 2}) {
      options.train_loop_per_worker = loop;
      options.run_config.failure_config.max_failures = max_failures;
      Error error = error_of([&] { DataParallelTrainer(options).fit(); });
      EXPECT_EQ(error.kind(), ErrorKind::kIo) << error.what();
      EXPECT_THAT(error.what(),
                  HasSubstr("the run folder '" + (storage / "run") + "' was removed"));
      // Including the files that a worker has written since.
      for (const char* name : {"run", "run.elsewhere"}) std::filesystem::remove_all(storage / name);
    }
  }
  // The next run has all that it needs.
  options.run_config.callbacks = {};
  options.train_loop_per_worker = [] { train::report({{"n", 1}}); };
  EXPECT_EQ(DataParallelTrainer(options).fit().metrics.at("n"), 1);
}

// Copying that into the run folder would end only when the disk is full.
TEST(ReportedFolderTest, MustNotHoldTheRunItself) {
  TemporaryFolder storage;
  for (auto loop : {+[] {
                      train::report({{"n", 1}}, get_context().run_folder);
                    },
                    +[] {
                      train::report({{"n", 1}}, get_context().run_folder + "/../.");
                    }}) {
    DataParallelTrainerOptions options{
        .train_loop_per_worker = loop,
        .run_config = {.name = "run", .storage_path = storage.path(), .verbose = 0}};
    Error error = error_of([&] { DataParallelTrainer(options).fit(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0 failed: the checkpoint to report, '"),
                                    HasSubstr("report a folder that has the files of")));
    std::filesystem::remove_all(storage / "run");
  }
}

// Numbers that JSON lacks are null in the files, and unchanged for the program.
TEST(OddMetricsTest, NumbersThatJsonLacksAreKeptAsNull) {
  TemporaryFolder storage;
  DataParallelTrainerOptions options{
      .train_loop_per_worker =
          [] {
            train::report({{"loss", std::nan("")}, {"rate", INFINITY}, {"note", "text"}});
          },
      .run_config = {.name = "run", .storage_path = storage.path(), .verbose = 0}};
  Result result = DataParallelTrainer(options).fit();
  EXPECT_EQ(result.metrics.at("note"), "text");
  auto restored = DataParallelTrainer::restore(
      storage / "run", {.train_loop_per_worker = options.train_loop_per_worker});
  Json kept = restored.fit().metrics;
  EXPECT_TRUE(kept.at("loss").is_null()) << kept;
  EXPECT_TRUE(kept.at("rate").is_null()) << kept;
}

}  // namespace
}  // namespace manta::train
