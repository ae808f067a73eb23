// Runs whose storage_path is an address, against a real server of S3.

#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/train/data_parallel_trainer.h"
#include "manta/train/loggers.h"
#include "manta/train/remote_storage_fixture_internal.h"
#include "manta/train/run_handle.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
namespace fs = std::filesystem;

TEST_F(RemoteStorageTest, EverythingIsAtTheAddress) {
  Training training = toy({{"limit", 5}});
  training.run.checkpoint_config.num_to_keep = 2;
  training.run.callbacks = {std::make_shared<JsonLoggerCallback>()};
  Result result = run_training(training);
  EXPECT_EQ(result.path, uri());
  EXPECT_THAT(numbers(result), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(spools(home_), ElementsAre());
  auto stored = names();
  EXPECT_THAT(stored, IsSupersetOf({"owner.json", "params.json", "checkpoint_000003/manifest.json",
                                    "checkpoint_000004/manifest.json", "checkpoint_000004/state",
                                    "checkpoint_000004/sub/large", "result.json", "progress.csv",
                                    "events.jsonl", "logs/rank-0.log"}));
  for (const std::string& name : stored) {
    EXPECT_THAT(name, Not(HasSubstr("checkpoint_000000")));
    EXPECT_THAT(name, Not(HasSubstr("checkpoint_000002")));
  }
  EXPECT_THAT(read_remote(address("runs/toy/result.json"), 1 << 20), HasSubstr("\"n\":4"));

  // This machine has no file of it: it is fetched.
  EXPECT_EQ(result.checkpoint.uri(), server_.address("runs/toy/checkpoint_000004"));
  EXPECT_EQ(result.checkpoint.metrics().at("n"), 4);
  EXPECT_EQ(read_text(result.checkpoint.file("state")), "4");
  EXPECT_EQ(read_text(result.checkpoint.to_directory(gates_ / "copy").file("state")), "4");
  ASSERT_EQ(result.best_checkpoints.size(), 2u);
  EXPECT_EQ(read_text(result.best_checkpoints.front().first.file("state")), "3");

  // Restoring a finished run gives the same result.
  EXPECT_TRUE(BaseTrainer::can_restore(uri()));
  EXPECT_FALSE(BaseTrainer::can_restore(server_.address("runs/other")));
  Result again = run_training(restored(uri(), {{"limit", 5}}));
  EXPECT_EQ(again.path, uri());
  EXPECT_EQ(again.metrics_history, result.metrics_history);
  EXPECT_EQ(again.best_checkpoints.size(), 2u);
  EXPECT_EQ(read_text(again.checkpoint.file("state")), "4");
  EXPECT_THAT(spools(home_), ElementsAre());
  // The journal of the first owner is gone, that of the second says that it is whole.
  EXPECT_EQ(names().size(), stored.size() + 1);
}

TEST_F(RemoteStorageTest, ATrainerListsWhatIsStored) {
  RunConfig run{.name = "toy", .storage_path = server_.address("runs"), .verbose = false};
  DataParallelTrainer trainer({.train_loop_per_worker = count_up_remotely,
                               .train_loop_config = {{"limit", 3}},
                               .run_config = run});
  trainer.fit();
  auto checkpoints = trainer.get_checkpoints();
  ASSERT_EQ(checkpoints.size(), 3u);
  EXPECT_EQ(read_text(checkpoints[1].file("state")), "1");
  // Another run begins from one of them; another process would find it, too.
  run.name = "next";
  DataParallelTrainer next({.train_loop_per_worker = count_up_remotely,
                            .train_loop_config = {{"limit", 4}},
                            .run_config = run,
                            .resume_from_checkpoint = checkpoints[1]});
  EXPECT_THAT(numbers(next.fit()), ElementsAre(2, 3));
  EXPECT_THAT(read_remote(address("runs/next/params.json"), 1 << 20),
              HasSubstr("s3://bucket/runs/toy/checkpoint_000001"));
}

TEST_F(RemoteStorageTest, AnotherMachineGoesOnWithOtherWorkers) {
  Training training = toy({{"limit", 6}, {"break_at", 3}});
  training.run.checkpoint_config.num_to_keep = 3;
  training.run.callbacks = {std::make_shared<JsonLoggerCallback>()};
  EXPECT_THAT(message_of([&] { run_training(training); }),
              AllOf(HasSubstr("broken"), HasSubstr("the run: s3://bucket/runs/toy")));
  EXPECT_EQ(spools(home_).size(), 1u);  // with the log that the message names

  TemporaryFolder other;
  set_home(other);
  Training next = restored(uri(), {{"limit", 6}});
  next.scaling.num_workers = 2;
  next.run.callbacks = {std::make_shared<JsonLoggerCallback>()};
  Result result = run_training(next);
  EXPECT_THAT(numbers(result), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(result.metrics.at("workers"), 2);
  EXPECT_EQ(result.metrics_history[2].at("workers"), 1);
  // Checkpoints of the first machine count among those to keep, and are removed.
  EXPECT_EQ(result.best_checkpoints.size(), 3u);
  EXPECT_FALSE(has("checkpoint_000002/manifest.json"));
  EXPECT_TRUE(has("checkpoint_000003/manifest.json"));
  EXPECT_THAT(spools(other), ElementsAre());
  // The tracker went on with its file.
  EXPECT_THAT(read_remote(address("runs/toy/events.jsonl"), 1 << 20),
              AllOf(HasSubstr("\"n\":0"), HasSubstr("\"n\":5")));
}

TEST_F(RemoteStorageTest, DamagedCheckpointsAreSteppedOver) {
  message_of([&] { run_training(toy({{"limit", 6}, {"break_at", 4}})); });
  // One checkpoint with another file, one without a manifest, one with another manifest.
  write_remote(address("runs/toy/checkpoint_000003/state"), "7");
  write_remote(address("runs/toy/checkpoint_000004/state"), "4");
  write_remote(address("runs/toy/checkpoint_000005/manifest.json"), "{}");
  testing::internal::CaptureStderr();
  Result result = run_training(restored(uri(), {{"limit", 6}, {"who", "next"}}));
  std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warnings, AllOf(HasSubstr("checkpoint_000003"), HasSubstr("'state'"),
                              HasSubstr("the one before it is used"),
                              HasSubstr("checkpoint_000005"), HasSubstr("it is not used")));
  EXPECT_THAT(numbers(result), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(result.metrics_history[2].at("who"), "");
  EXPECT_EQ(result.metrics_history[3].at("who"), "next");
  // The checkpoints are whole now.
  for (int n = 0; n < 6; ++n)
    EXPECT_EQ(read_text(Checkpoint::from_uri(server_.address(str("runs/toy/checkpoint_00000", n)))
                            .file("state")),
              std::to_string(n));
}

TEST_F(RemoteStorageTest, WhatIsWrongWithTheStoreIsSaidAtTheStart) {
  Training training = toy({{"limit", 1}});
  auto refused = [&](const std::string& storage, ErrorKind kind) {
    training.run.storage_path = storage;
    Error error = error_of([&] { run_training(training); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(spools(home_), ElementsAre());
    return std::string(error.what());
  };
  EXPECT_THAT(refused(server_.address("runs", "none"), ErrorKind::kNotFound),
              AllOf(HasSubstr("s3://none/runs/toy"), HasSubstr("make the bucket")));
  EXPECT_THAT(refused(server_.address("runs", "anonymous@bucket"), ErrorKind::kInvalidArgument),
              HasSubstr("access is refused"));
  EXPECT_THAT(refused("s3://key:secret@bucket/runs", ErrorKind::kInvalidArgument),
              AllOf(HasSubstr("secret key"), Not(HasSubstr("key:secret"))));
  EXPECT_THAT(refused("s3:///runs", ErrorKind::kInvalidArgument), HasSubstr("no bucket"));
  EXPECT_THAT(refused("s4://bucket/runs", ErrorKind::kInvalidArgument), HasSubstr("s4"));
  training.run.name = "a?b";
  EXPECT_THAT(refused(server_.address("runs"), ErrorKind::kInvalidArgument), HasSubstr("'a?b'"));
  training.run.name = "toy";
  training.run.storage_timeout = std::chrono::milliseconds(0);
  EXPECT_THAT(refused(server_.address("runs"), ErrorKind::kInvalidArgument),
              HasSubstr("storage_timeout"));
  training.run.storage_timeout = std::chrono::seconds(10);
  server_.go_down();
  EXPECT_THAT(refused(server_.address("runs"), ErrorKind::kIo), HasSubstr("s3://bucket/runs/toy"));
  EXPECT_EQ(error_of([&] { restored(uri(), {}); }).kind(), ErrorKind::kIo);
  server_.come_back();
  EXPECT_EQ(error_of([&] { restored(uri(), {}); }).kind(), ErrorKind::kNotFound);
  EXPECT_THAT(names(), ElementsAre());
}

struct ThrowsAtStart : Callback {
  void on_run_start(const RunInfo&) override { throw std::runtime_error("not today"); }
};

TEST_F(RemoteStorageTest, ANameIsUsedOnce) {
  Training training = toy({{"limit", 1}});
  training.run.callbacks = {std::make_shared<ThrowsAtStart>()};
  EXPECT_THAT(message_of([&] { run_training(training); }), HasSubstr("not today"));
  EXPECT_THAT(names(), ElementsAre());  // as if it never existed
  EXPECT_THAT(spools(home_), ElementsAre());
  training.run.callbacks.clear();
  run_training(training);
  Error error = error_of([&] { run_training(training); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("there is a run at 's3://bucket/runs/toy"), HasSubstr("restore")));
  // Names of their own.
  training.run.name = "";
  std::string first = run_training(training).path;
  EXPECT_THAT(first, HasSubstr("s3://bucket/runs/ToyTrainer_"));
  EXPECT_NE(run_training(training).path, first);
  EXPECT_THAT(spools(home_), ElementsAre());
}

TEST_F(RemoteStorageTest, AStoreThatIsAwayForAWhileDoesNotHoldUpTheLoop) {
  std::string gate = gates_ / "gate", last_gate = gates_ / "last", progress = gates_ / "progress";
  Training training = toy({{"limit", 6},
                           {"wait_at", 1},
                           {"gate", gate},
                           {"last_wait_at", 4},
                           {"last_gate", last_gate},
                           {"progress", progress}});
  training.run.checkpoint_config.num_to_keep = 2;
  StderrFile errors;
  RunHandle run(training);
  ASSERT_TRUE(eventually([&] { return has("checkpoint_000001/manifest.json"); }));
  server_.go_down();
  std::ofstream(gate) << "open";
  ASSERT_TRUE(eventually([&] { return fs::exists(progress) && read_text(progress) == "4"; }));
  ASSERT_TRUE(eventually([&] { return errors.has("cannot be stored"); }));
  server_.come_back();
  ASSERT_TRUE(eventually([&] { return errors.has("again"); }));
  std::ofstream(last_gate) << "open";
  Result result = run.result();
  EXPECT_THAT(numbers(result), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(read_text(result.checkpoint.file("state")), "5");
  EXPECT_FALSE(has("checkpoint_000001/manifest.json"));
  EXPECT_FALSE(has("checkpoint_000003/manifest.json"));
  EXPECT_TRUE(has("checkpoint_000004/manifest.json"));
  EXPECT_THAT(spools(home_), ElementsAre());
}

TEST_F(RemoteStorageTest, WhatIsNotStoredAtTheEndIsSaidAndStoredLater) {
  std::string gate = gates_ / "gate";
  Training training = toy({{"limit", 4}, {"wait_at", 1}, {"gate", gate}});
  training.run.storage_timeout = std::chrono::seconds(1);
  training.run.checkpoint_config.num_to_keep = 2;
  RunHandle run(training);
  ASSERT_TRUE(eventually([&] { return has("checkpoint_000001/manifest.json"); }));
  server_.go_down();
  std::ofstream(gate) << "open";
  Error error = error_of([&] { run.result(); });
  ASSERT_EQ(spools(home_).size(), 1u);
  std::string folder = spools(home_).front() + "/toy";
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("the run has finished, but not all of it is stored"),
                                  HasSubstr("checkpoint_000003"), HasSubstr("storage_timeout"),
                                  Not(HasSubstr("checkpoint_000001")), HasSubstr(folder)));
  EXPECT_NO_THROW(Checkpoint::from_directory(folder + "/checkpoint_000003"));
  // Still down: nothing is lost.
  EXPECT_THROW(run_training(restored(folder, {{"limit", 4}})), Error);
  server_.come_back();
  EXPECT_FALSE(has("checkpoint_000003/manifest.json"));
  Result result = run_training(restored(folder, {{"limit", 4}}));
  EXPECT_EQ(result.path, uri());
  EXPECT_THAT(numbers(result), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(read_text(result.checkpoint.file("state")), "3");
  EXPECT_TRUE(has("checkpoint_000003/manifest.json"));
  EXPECT_TRUE(has("result.json"));
  // Checkpoints that were to be removed while the store was away are removed now.
  EXPECT_FALSE(has("checkpoint_000001/manifest.json"));
  EXPECT_EQ(result.best_checkpoints.size(), 2u);
  EXPECT_THAT(spools(home_), ElementsAre());
}

TEST_F(RemoteStorageTest, ADriverThatWasSupersededEnds) {
  std::string gate = gates_ / "gate";
  Training training = toy({{"limit", 1000}, {"wait_at", 1}, {"gate", gate}, {"who", "first"}});
  training.run.failure_config.max_failures = -1;
  RunHandle first(training);
  ASSERT_TRUE(eventually([&] { return has("checkpoint_000001/manifest.json"); }));
  std::string spool = spools(home_).front();
  Result second = run_training(restored(uri(), {{"limit", 4}, {"who", "second"}}));
  EXPECT_THAT(numbers(second), ElementsAre(0, 1, 2, 3));
  auto stored = names();
  std::ofstream(gate) << "open";
  Error error = error_of([&] { first.result(); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(str("process ", ::getpid(), " on ")),
                                  HasSubstr("has taken it over"), HasSubstr(spool)));
  // Nothing that it did since then is there.
  EXPECT_EQ(names(), stored);
  Result again = run_training(restored(uri(), {{"limit", 4}}));
  EXPECT_EQ(again.metrics_history, second.metrics_history);
  EXPECT_EQ(again.metrics.at("who"), "second");
  EXPECT_EQ(read_text(again.checkpoint.file("state")), "3");
  // Nor may its folder be stored any more.
  EXPECT_THAT(message_of([&] {
                run_training(restored(spool + "/toy", {{"limit", 4}}));
              }),
              HasSubstr("has been taken over"));
}

TEST_F(RemoteStorageTest, ARunThatIsStoppedIsStored) {
  std::string gate = gates_ / "gate";
  RunHandle run(toy({{"limit", 1000}, {"wait_at", 2}, {"gate", gate}}));
  ASSERT_TRUE(eventually([&] { return has("checkpoint_000002/manifest.json"); }));
  run.stop();
  Error error = error_of([&] { run.result(); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(), HasSubstr("::restore(\"s3://bucket/runs/toy"));
  EXPECT_THAT(spools(home_), ElementsAre());
  EXPECT_TRUE(has("logs/rank-0.log"));
  EXPECT_THAT(numbers(run_training(restored(uri(), {{"limit", 4}}))), ElementsAre(0, 1, 2, 3));
}

TEST_F(RemoteStorageTest, NothingInAStoreIsTrusted) {
  run_training(toy({{"limit", 2}}));
  auto refused = [&](ErrorKind kind) {
    Error error = error_of([&] { run_training(restored(uri(), {{"limit", 2}})); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(spools(home_), ElementsAre());
    return std::string(error.what());
  };
  auto file = [&](const std::string& name) { return address("runs/toy/" + name); };
  std::string owner = read_remote(file("owner.json"), 1 << 20);
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"\"token\": \"", "\"token\": \"../"},
        {"\"before\": \"", "\"before\": \"../x"},
        {"{", "["},
        {"\"generation\"", "\"generations\""}}) {
    std::string other = owner;
    other.replace(other.find(from), from.size(), to);
    write_remote(file("owner.json"), other);
    EXPECT_THAT(refused(ErrorKind::kCorrupt), HasSubstr("runs/toy/owner.json"));
  }
  write_remote(file("owner.json"), owner);
  std::string params = read_remote(file("params.json"), 1 << 20);
  write_remote(file("params.json"), "{\"trainer\": 1}");
  EXPECT_THAT(refused(ErrorKind::kCorrupt), HasSubstr("params.json"));
  // A run is where it was found, whatever its params.json says.
  std::string other = params;
  size_t at = other.find("s3://bucket/runs");
  other.replace(at, 16, "s3://elsewhere/x");
  write_remote(file("params.json"), other);
  EXPECT_EQ(run_training(restored(uri(), {{"limit", 2}})).path, uri());
  // A journal that lacks a part, or has another line.
  std::string part;
  for (const std::string& name : names())
    if (name.ends_with("/000000.jsonl")) part = name;
  std::string lines = read_remote(file(part), 1 << 20);
  write_remote(file(part), lines.substr(0, 50) + "\n" + lines);
  EXPECT_THAT(refused(ErrorKind::kCorrupt), HasSubstr("line 1 of"));
}

TEST_F(RemoteStorageTest, OtherStoresTakeRunsToo) {
  TemporaryFolder store;
  Training training = toy({{"limit", 4}, {"break_at", 2}});
  training.run.storage_path = "file://" + store.path() + "/runs";
  training.run.checkpoint_config.num_to_keep = 1;
  message_of([&] { run_training(training); });
  EXPECT_TRUE(fs::exists(store / "runs/toy/checkpoint_000001/manifest.json"));
  EXPECT_FALSE(fs::exists(store / "runs/toy/checkpoint_000000"));
  Result result = run_training(restored("file://" + store.path() + "/runs/toy", {{"limit", 4}}));
  EXPECT_THAT(numbers(result), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(read_text(result.checkpoint.file("state")), "3");
}

}  // namespace
}  // namespace manta::train
