// The earlier style, with an address as storage_path.

#include <gmock/gmock.h>
#include <signal.h>

#include <iostream>

#include "manta/base/error_internal.h"
#include "manta/train/remote_storage_fixture_internal.h"
#include "manta/train/trainer.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
namespace fs = std::filesystem;

class RemoteTrainerTest : public RemoteStorageTest {
 protected:
  TrainerOptions options(const std::string& name = "toy") const {
    return {.num_workers = 2,
            .resources_per_worker = {.cpus = 0.1},
            .name = name,
            .storage_path = server_.address("runs"),
            .verbose = 0};
  }
  std::string stored(const std::string& name) const {
    return read_remote(address("runs/toy/" + name), 1 << 20);
  }
};

int count_and_say(const Json& config) {
  std::cout << "I am " << config.at("who").get<std::string>() << std::endl;
  count_up_remotely(config);
  return config.at("limit");
}

TEST_F(RemoteTrainerTest, EachRunIsAtTheAddress) {
  Trainer trainer("none", options());
  EXPECT_EQ(trainer.logdir(), "");
  trainer.start();
  EXPECT_EQ(trainer.logdir(), uri());
  EXPECT_THAT(message_of([&] { trainer.latest_run(); }), HasSubstr("no run has begun yet"));
  EXPECT_THAT(trainer.run(count_and_say, {{"limit", 2}, {"who", "one"}}), ElementsAre(2, 2));
  Result first = trainer.latest_run();
  EXPECT_EQ(first.path, server_.address("runs/toy/run_001"));
  EXPECT_EQ(first.outcome, RunOutcome::kFinished);
  EXPECT_THAT(numbers(first), ElementsAre(0, 1));
  EXPECT_EQ(first.checkpoint.uri(), server_.address("runs/toy/run_001/checkpoint_000001"));
  EXPECT_EQ(read_text(first.checkpoint.file("state")), "1");
  EXPECT_EQ(first.best_checkpoints.size(), 2u);
  EXPECT_EQ(spools(home_).size(), 1u);  // where the workers' output is

  // Begins from a checkpoint there.
  trainer.run(count_and_say, {{"limit", 4}, {"who", "two"}}, {.checkpoint = first.checkpoint});
  EXPECT_THAT(numbers(trainer.latest_run()), ElementsAre(2, 3));
  EXPECT_EQ(read_text(trainer.latest_run().checkpoint.file("state")), "3");
  EXPECT_THAT(names(), IsSupersetOf({"run_001/owner.json", "run_001/params.json",
                                     "run_001/checkpoint_000000/manifest.json",
                                     "run_002/checkpoint_000001/manifest.json",
                                     "run_002/logs/rank-1.log", "run_002/result.json"}));
  for (const char* log : {"logs/rank-0.log", "logs/rank-1.log"}) {
    EXPECT_EQ(stored(str("run_001/", log)), "I am one\n");
    EXPECT_EQ(stored(str("run_002/", log)), "I am two\n");
  }
  trainer.shutdown();
  EXPECT_THAT(spools(home_), ElementsAre());
  EXPECT_EQ(read_text(trainer.latest_run().checkpoint.file("state")), "3");

  // Other workers, whose output begins anew.
  trainer.start();
  trainer.run(count_and_say, {{"limit", 1}, {"who", "three"}});
  EXPECT_EQ(stored("run_003/logs/rank-0.log"), "I am three\n");
}

TEST_F(RemoteTrainerTest, ANameThatHasRunsIsRefused) {
  auto make = [&] {
    Trainer trainer("none", options());
    trainer.start();
    return trainer;
  };
  Trainer first = make();
  Trainer second = make();  // as long as there is no run
  first.run([] {});
  EXPECT_EQ(error_of([&] { second.run([] {}); }).kind(), ErrorKind::kInvalidArgument);
  Error error = error_of([&] { make(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("there are runs at '" + uri()), HasSubstr("TrainerOptions::name")));
  // The address may not be that of a run, either.
  Training other = toy({{"limit", 1}});
  other.run.name = "other";
  run_training(other);
  Trainer third("none", options("other"));
  EXPECT_THAT(message_of([&] { third.start(); }), HasSubstr("there are runs at"));
  // Names of their own.
  std::set<std::string> places;
  for (int i = 0; i < 2; ++i) {
    Trainer unnamed("none", options(""));
    unnamed.start();
    unnamed.run([] {});
    places.insert(unnamed.logdir());
    EXPECT_THAT(unnamed.logdir(), HasSubstr("s3://bucket/runs/Trainer_"));
  }
  EXPECT_EQ(places.size(), 2u);
}

TEST_F(RemoteTrainerTest, WhatIsWrongWithTheStoreIsSaidAtTheStart) {
  auto refused = [&](const std::string& storage) {
    TrainerOptions given = options();
    given.storage_path = storage;
    Error error = error_of([&] { Trainer("none", given).start(); });
    EXPECT_THAT(spools(home_), ElementsAre());
    return std::pair(error.kind(), std::string(error.what()));
  };
  auto [kind, message] = refused(server_.address("runs", "none"));
  EXPECT_EQ(kind, ErrorKind::kNotFound);
  EXPECT_THAT(message,
              AllOf(HasSubstr("TrainerOptions::storage_path"), HasSubstr("make the bucket")));
  EXPECT_EQ(refused(server_.address("runs", "anonymous@bucket")).first,
            ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused("s3:///runs").second, HasSubstr("no bucket"));
  EXPECT_THAT(refused("s4://bucket/runs").second, HasSubstr("s4"));
  server_.go_down();
  EXPECT_EQ(refused(server_.address("runs")).first, ErrorKind::kIo);
}

TEST_F(RemoteTrainerTest, AFailureNamesALogThatIsThere) {
  Trainer trainer("none", options());
  trainer.start();
  std::string message = message_of([&] {
    trainer.run(count_and_say, {{"limit", 4}, {"break_at", 2}, {"who", "broken one"}});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("broken"), HasSubstr("runs/toy/run_001"),
                             HasSubstr("as `checkpoint` goes on"), Not(HasSubstr("restore()"))));
  size_t at = message.find("its log: ") + 9;
  std::string log = message.substr(at, message.find('\n', at) - at);
  EXPECT_THAT(read_text(log), HasSubstr("I am broken one"));
  EXPECT_THAT(stored("run_001/logs/rank-1.log"), HasSubstr("I am broken one"));
  Result failed = trainer.latest_run();
  EXPECT_EQ(failed.path, server_.address("runs/toy/run_001"));
  EXPECT_EQ(failed.outcome, RunOutcome::kFailed);
  EXPECT_THAT(numbers(failed), ElementsAre(0, 1));
  // And when its folder here is gone.
  fs::remove_all(home_ / "manta_results");
  failed = trainer.latest_run();
  EXPECT_EQ(failed.outcome, RunOutcome::kFailed);
  EXPECT_EQ(read_text(failed.checkpoint.file("state")), "1");
  trainer.shutdown();
  trainer.start();
  trainer.run(count_and_say, {{"limit", 4}, {"who", "next"}}, {.checkpoint = failed.checkpoint});
  EXPECT_THAT(numbers(trainer.latest_run()), ElementsAre(2, 3));
}

void die_once(const Json& config) {
  if (get_context().attempt == 0) {
    train::report({{"n", 0}});
    ::raise(SIGKILL);
  }
  count_up_remotely(config);
}

TEST_F(RemoteTrainerTest, ALostWorkerIsReplacedAndTheRunGoesOn) {
  TrainerOptions one = options();
  one.num_workers = 1;
  Trainer trainer("none", one);
  trainer.start();
  trainer.run(die_once, {{"limit", 4}});
  EXPECT_THAT(numbers(trainer.latest_run()), ElementsAre(0, 1, 2, 3));
}

TEST_F(RemoteTrainerTest, WhatIsNotStoredIsSaidAndStaysHere) {
  TrainerOptions impatient = options();
  impatient.storage_timeout = std::chrono::milliseconds(200);
  Trainer trainer("none", impatient);
  trainer.start();
  // The last report.
  server_.tell("/-/refuse?match=PUT.*/checkpoint_000002/&skip=0&times=1000000");
  Error error = error_of([&] { trainer.run(count_and_say, {{"limit", 3}, {"who", "x"}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("not all of it is stored"),
                                  HasSubstr("checkpoint_000002"), Not(HasSubstr("restore()"))));
  Result result = trainer.latest_run();
  EXPECT_THAT(numbers(result), ElementsAre(0, 1, 2));
  EXPECT_EQ(read_text(result.checkpoint.file("state")), "2");
}

// In the driver's own process: there are no logs, and no folder for them.
TEST_F(RemoteTrainerTest, WithoutWorkers) {
  TrainerOptions none = options();
  none.num_workers = 0;
  Trainer trainer("none", none);
  trainer.start();
  EXPECT_THAT(spools(home_), ElementsAre());
  trainer.run(count_up_remotely, {{"limit", 2}});
  EXPECT_THAT(spools(home_), ElementsAre());
  EXPECT_EQ(read_text(trainer.latest_run().checkpoint.file("state")), "1");
}

}  // namespace
}  // namespace manta::train
