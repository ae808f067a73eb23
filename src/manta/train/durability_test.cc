// What is on the disk when a checkpoint counts, if CheckpointConfig::fsync is on. This program
// replaces the C library's fsync by a function that records the calls.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/callback.h"
#include "manta/train/file_internal.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace {

std::mutex synced_mutex;
std::map<std::string, int64_t>* synced = nullptr;  // path -> size at the last fsync
std::string* held_up =
    nullptr;  // a path: that of the file whose fsync waits until there is another
std::string* until = nullptr;

}  // namespace

extern "C" int fsync(int fd) {
  if (held_up) {
    std::error_code error;
    auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
    if (path == *held_up) manta::eventually([] { return std::filesystem::exists(*until); });
  }
  int result = static_cast<int>(::syscall(SYS_fsync, fd));
  std::lock_guard lock(synced_mutex);
  if (!synced) return result;
  std::error_code error;
  struct stat info {};
  std::string path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string();
  if (::fstat(fd, &info) == 0) (*synced)[path] = info.st_size;
  return result;
}

namespace manta::train {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Key;

/// Records while it lives.
class SyncRecord {
 public:
  SyncRecord() {
    std::lock_guard lock(synced_mutex);
    synced = &all_;
  }
  ~SyncRecord() {
    std::lock_guard lock(synced_mutex);
    synced = nullptr;
  }
  std::map<std::string, int64_t> all() const {
    std::lock_guard lock(synced_mutex);
    return all_;
  }

 private:
  std::map<std::string, int64_t> all_;
};

/// Whenever a checkpoint counts, compares the journal with the part of it that is on the disk.
class LooksAtTheDisk final : public Callback {
 public:
  explicit LooksAtTheDisk(const SyncRecord& record) : record_(record) {}
  void on_run_start(const RunInfo& run) override {
    before_ = record_.all();
    run_ = run.path;
  }
  void on_checkpoint(const RunInfo& run, const Checkpoint& checkpoint) override {
    std::string journal = run.path + "/journal.jsonl";
    auto all = record_.all();
    auto found = all.find(journal);
    behind_.push_back(
        found == all.end() ? -1 : static_cast<int64_t>(read_text(journal).size()) - found->second);
    whole_ = whole_ && all.contains(run.path) &&
             (all.contains(checkpoint.file("dict.json")) ||
              all.contains(checkpoint.path() + ".partial/dict.json"));
  }
  const SyncRecord& record_;
  std::map<std::string, int64_t> before_;
  std::vector<int64_t> behind_;  // bytes of the journal that the disk lacked; -1: all
  bool whole_ = true;
  std::string run_;
};

void reports_of_both_kinds() {
  for (int n = 0; n < 4; ++n) {
    if (n % 2 == 0) {
      train::report({{"n", n}});
    } else {
      train::report({{"n", n}}, Checkpoint::from_dict({.values = {{"n", n}}}));
    }
  }
}

TEST(DurabilityTest, TheDiskHasTheJournalWhenACheckpointCounts) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), reports_of_both_kinds);
  SyncRecord record;
  auto callback = std::make_shared<LooksAtTheDisk>(record);
  training.run.checkpoint_config.fsync = true;
  training.run.callbacks = {callback};
  run_training(training);
  std::string run = storage / "toy";
  EXPECT_THAT(callback->before_,
              AllOf(Contains(Key(run + "/params.json")), Contains(Key(run + "/journal.jsonl")),
                    Contains(Key(run)), Contains(Key(storage.path()))));
  EXPECT_THAT(callback->behind_, testing::ElementsAre(0, 0));
  EXPECT_TRUE(callback->whole_);
}

// Further reports need the driver's thread, so another thread must wait for the disk.
void go_on_while_the_disk_is_busy() {
  std::string run = get_context().run_folder;
  train::report({{"n", 0}}, Checkpoint::from_dict({.values = {{"n", 0}}}));
  for (int n = 1; n < 5; ++n) train::report({{"n", n}});
  bool ahead = !std::filesystem::exists(run + "/checkpoint_000000");
  std::ofstream(run + "/went_on") << "";
  train::report({{"ahead", ahead}});
}

TEST(DurabilityTest, TheLoopGoesOnWhileTheDiskIsWaitedFor) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), go_on_while_the_disk_is_busy);
  training.run.checkpoint_config.fsync = true;
  std::string file = storage / "toy/checkpoint_000000.partial/dict.json";
  std::string other = storage / "toy/went_on";
  held_up = &file;
  until = &other;
  Result result = run_training(training);
  held_up = nullptr;
  ASSERT_EQ(result.metrics_history.size(), 6u);
  EXPECT_EQ(result.metrics.at("ahead"), true);
  EXPECT_EQ(result.checkpoint.path(), storage / "toy/checkpoint_000000");
}

TEST(DurabilityTest, NothingIsWaitedForByDefault) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), reports_of_both_kinds);
  SyncRecord record;
  auto callback = std::make_shared<LooksAtTheDisk>(record);
  training.run.callbacks = {callback};
  run_training(training);
  EXPECT_THAT(callback->behind_, testing::ElementsAre(-1, -1));
  for (const auto& [path, size] : record.all()) {
    EXPECT_FALSE(path.starts_with(storage.path())) << path;
  }
}

}  // namespace
}  // namespace manta::train
