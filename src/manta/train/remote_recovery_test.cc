// What happens to runs in a store when single requests fail, and to files that are found there.

#include <arrow/io/interfaces.h>
#include <arrow/status.h>
#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/train/callback.h"
#include "manta/train/remote_checkpoint_internal.h"
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

// The library tries each request this many times.
constexpr int kTries = 3;

class RemoteRecoveryTest : public RemoteStorageTest {
 protected:
  // Of the matching requests, the server accepts the first `skip` and refuses the next `times`: see
  // tests/s3_server.py.
  void refuse(const std::string& match, int skip, int times) {
    server_.tell(str("/-/refuse?match=", match, "&skip=", skip, "&times=", times));
  }
  int refused() const {
    std::string counts = server_.tell("/-/counts");
    return std::stoi(counts.substr(counts.find("matched=") + 8));
  }
  // A run of four reports, of which the store has two; the rest is in the folder that is returned.
  std::string run_that_outlives_its_store() {
    std::string gate = gates_ / "gate";
    Training training = toy({{"limit", 4}, {"wait_at", 1}, {"gate", gate}});
    training.run.storage_timeout = std::chrono::milliseconds(100);
    RunHandle run(training);
    EXPECT_TRUE(eventually([&] { return has("checkpoint_000001/manifest.json"); }));
    server_.go_down();
    std::ofstream(gate) << "open";
    EXPECT_EQ(error_of([&] { run.result(); }).kind(), ErrorKind::kIo);
    server_.come_back();
    EXPECT_EQ(spools(home_).size(), 1u);
    return spools(home_).front() + "/toy";
  }
  std::string owner() const { return read_remote(address("runs/toy/owner.json"), 1 << 20); }
};

TEST_F(RemoteRecoveryTest, AJournalCountsOnceTheStoreHasIt) {
  std::string folder = run_that_outlives_its_store();
  // The second write decides whose journal counts; the first is that of the new owner.
  refuse("PUT.*/(owner.json|whole)", 1, kTries);
  run_training(restored(folder, {{"limit", 4}}));
  EXPECT_EQ(refused(), kTries);
  EXPECT_THAT(spools(home_), ElementsAre());
  EXPECT_THAT(numbers(run_training(restored(uri(), {{"limit", 4}}))), ElementsAre(0, 1, 2, 3));
}

TEST_F(RemoteRecoveryTest, AFolderIsNotLockedOutOfItsOwnStore) {
  std::string folder = run_that_outlives_its_store();
  for (int again = 0; again < 2; ++again) {
    // It becomes the owner, but does not get the answer.
    std::string before = owner();
    refuse("GET.*/owner.json", 1, kTries);
    EXPECT_EQ(error_of([&] {
                run_training(restored(folder, {{"limit", 4}}));
              }).kind(),
              ErrorKind::kIo);
    EXPECT_NE(owner(), before);
  }
  EXPECT_THAT(numbers(run_training(restored(folder, {{"limit", 4}}))), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(spools(home_), ElementsAre());
}

TEST_F(RemoteRecoveryTest, WhateverTheLoopWroteIsStoredAndComesBack) {
  std::vector<std::string> files = {"manifest.json",         "models/manifest.json",
                                    "checkpoint_scores.csv", "checkpoint_best/weights",
                                    ".hydra/config.yaml",    "sub/.hidden"};
  message_of([&] { run_training(toy({{"limit", 4}, {"break_at", 2}, {"files", files}})); });
  EXPECT_THAT(names(), IsSupersetOf(files));
  for (const std::string& name : names()) {
    EXPECT_THAT(name, AllOf(Not(HasSubstr(".lock")), Not(HasSubstr(".store.json")),
                            Not(HasSubstr(".staging")), Not(HasSubstr(".upload"))));
  }
  TemporaryFolder other;
  set_home(other);
  EXPECT_THAT(numbers(run_training(restored(uri(), {{"limit", 4}, {"expects", files}}))),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(spools(other), ElementsAre());
  // Names that only a folder of our own may have.
  write_remote(address("runs/toy/.store.json"), "{}");
  write_remote(address("runs/toy/.upload/x"), "x");
  EXPECT_NO_THROW(run_training(restored(uri(), {{"limit", 4}})));
}

struct LinksAtEnd : Callback {
  void on_run_end(const RunInfo& info, RunOutcome) override {
    fs::create_symlink("result.json", info.path + "/latest");
    std::ofstream(info.path + "/journal") << "dear diary";
  }
};

TEST_F(RemoteRecoveryTest, WhatCannotBeStoredStaysAndIsSaid) {
  Training training = toy({{"limit", 1}});
  training.run.callbacks = {std::make_shared<LinksAtEnd>()};
  testing::internal::CaptureStderr();
  Result result = run_training(training);
  std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.path, uri());
  ASSERT_EQ(spools(home_).size(), 1u);
  std::string folder = spools(home_).front() + "/toy";
  EXPECT_THAT(warnings, AllOf(HasSubstr("'latest' (a symbolic link)"), HasSubstr("'journal'"),
                              HasSubstr(folder)));
  EXPECT_EQ(read_text(folder + "/journal"), "dear diary");
  EXPECT_TRUE(fs::is_symlink(folder + "/latest"));
}

TEST_F(RemoteRecoveryTest, AHalfMadeRunDoesNotKeepItsName) {
  // Its driver became the owner, but did not get the answer.
  refuse("GET.*/owner.json", 0, kTries);
  EXPECT_EQ(error_of([&] { run_training(toy({{"limit", 1}})); }).kind(), ErrorKind::kIo);
  EXPECT_EQ(refused(), kTries);
  EXPECT_THAT(names(), ElementsAre());
  // Its driver was killed before it stored anything else.
  RemoteRun::create(address("runs/toy"));
  EXPECT_THAT(names(), ElementsAre("owner.json"));
  EXPECT_FALSE(is_run_folder(uri()));
  Error error = error_of([&] { restored(uri(), {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("it has no params.json"));
  EXPECT_THAT(numbers(run_training(toy({{"limit", 1}}))), ElementsAre(0));
}

// The error is found when there is a folder already.
TEST_F(RemoteRecoveryTest, ARunWhoseDataSetIsGoneLeavesNoFolder) {
  message_of([&] { run_training(toy({{"limit", 4}, {"break_at", 2}})); });
  TemporaryFolder other;
  set_home(other);
  data::ParquetFolder rows;
  rows.write_rows("a.parquet", 0, 10, 10);
  std::string second = rows.write_rows("b.parquet", 10, 10, 10);
  Training next = restored(uri(), {{"limit", 4}});
  next.datasets = {{"train", data::read_parquet(rows.path())}};
  fs::remove(second);
  EXPECT_THAT(message_of([&] { run_training(next); }), HasSubstr(second));
  EXPECT_THAT(spools(other), ElementsAre());
}

TEST_F(RemoteRecoveryTest, ADriverThatLosesARunCannotTakeItBack) {
  RemoteRun first = RemoteRun::create(address("runs/toy"));
  first.put_params("{}");
  first.put_journal(0, "1\n");
  RemoteRun second = RemoteRun::take_over(address("runs/toy"));
  second.put_journal(0, "1\n2\n");
  RemoteRun third = RemoteRun::take_over(address("runs/toy"));
  EXPECT_EQ(error_of([&] { second.journal_is_whole(); }).kind(), ErrorKind::kIo);
  EXPECT_TRUE(second.superseded());
  EXPECT_NO_THROW(third.require_owner());
  auto journal = [&](const RemoteRun& run) {
    TemporaryFolder folder;
    run.download(folder.path());
    return read_text(folder / "journal.jsonl");
  };
  EXPECT_EQ(journal(third), "1\n");
  // Its last request still arrives: its journal is whole, and the first owner's journal is removed.
  std::string own = "runs/toy/journal/000002-" + second.token();
  write_remote(address(own + "/whole"), "\n");
  remove_remote_folder(address("runs/toy/journal/000001-" + first.token()));
  EXPECT_EQ(journal(third), "1\n2\n");
  third.put_journal(0, "1\n2\n3\n");
  std::string before = owner();
  third.journal_is_whole();
  EXPECT_EQ(owner(), before);  // it is written once
  EXPECT_EQ(look_at(address(own)).kind, RemoteEntry::kNothing);
  EXPECT_EQ(journal(RemoteRun::take_over(address("runs/toy"))), "1\n2\n3\n");
}

// A driver that was superseded notices at its next write; one may be on its way.
TEST_F(RemoteRecoveryTest, ARunIsTakenOverWhileItsDriverWrites) {
  TemporaryFolder store;
  for (int i = 0; i < 20; ++i) {
    RemoteAddress run = *remote_address(str("file://", store.path(), "/runs/", i));
    RemoteRun first = RemoteRun::create(run);
    first.put_params("{}");
    std::string lines = "0\n";
    first.put_journal(0, lines);
    std::thread writes([&] {
      try {
        for (int n = 0; n < 100'000; ++n) first.put_journal(0, lines += str(n, "\n"));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kIo) << error.what();
      }
    });
    TemporaryFolder folder;
    EXPECT_NO_THROW(RemoteRun::take_over(run).download(folder.path()));
    writes.join();
    EXPECT_TRUE(first.superseded());
    EXPECT_TRUE(lines.starts_with(read_text(folder / "journal.jsonl")));
  }
}

TEST_F(RemoteRecoveryTest, AFileThatIsGivenUpDoesNotAppear) {
  {
    NewRemoteFile file(address("runs/x"));
    ASSERT_TRUE(file.stream()->Write("half", 4).ok());
    refuse("DELETE", 0, 100);  // this request aborts the upload
  }
  EXPECT_GT(refused(), 0);
  EXPECT_EQ(look_at(address("runs/x")).kind, RemoteEntry::kNothing);
}

TEST_F(RemoteRecoveryTest, AStoreThatIsAbsentIsNotLost) {
  TemporaryFolder store;
  RemoteAddress run = *remote_address("file://" + store.path() + "/runs/toy");
  RemoteRun remote = RemoteRun::create(run);
  remote.put_params("{}");
  fs::rename(store / "runs", store / "away");
  Error error = error_of([&] { remote.put_params("{}"); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), HasSubstr("at the moment"));
  EXPECT_FALSE(remote.superseded());
  EXPECT_FALSE(fs::exists(store / "runs"));
  fs::rename(store / "away", store / "runs");
  EXPECT_NO_THROW(remote.put_params("{}"));
  // Only this file has been removed.
  fs::remove(store / "runs/toy/owner.json");
  EXPECT_THROW(remote.require_owner(), Error);
  EXPECT_TRUE(remote.superseded());
}

struct SaysWhenItEnds : Callback {
  void on_run_end(const RunInfo&, RunOutcome) override { ended.set_value(); }
  std::promise<void> ended;
};

TEST_F(RemoteRecoveryTest, AUserNeedNotWaitForAStore) {
  std::string gate = gates_ / "gate";
  Training training = toy({{"limit", 4}, {"wait_at", 1}, {"gate", gate}});
  auto watcher = std::make_shared<SaysWhenItEnds>();
  training.run.callbacks = {watcher};
  RunHandle run(training);
  ASSERT_TRUE(eventually([&] { return has("checkpoint_000001/manifest.json"); }));
  server_.go_down();
  std::ofstream(gate) << "open";
  watcher->ended.get_future().wait();
  run.stop();
  Error error = error_of([&] { run.result(); });
  ASSERT_EQ(spools(home_).size(), 1u);
  std::string folder = spools(home_).front() + "/toy";
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("the run has finished, but not all of it is stored: interrupted"),
                    HasSubstr("checkpoint_000003"), HasSubstr(folder)));
  server_.come_back();
  EXPECT_THAT(numbers(run_training(restored(folder, {{"limit", 4}}))), ElementsAre(0, 1, 2, 3));
}

TEST_F(RemoteRecoveryTest, SixteenMegabytesAreSentBeforeTheNextAreRead) {
  std::ofstream(gates_ / "large") << "";
  fs::resize_file(gates_ / "large", 48 << 20);
  refuse("PUT.*/large", 0, 100);
  int parts = 0;
  EXPECT_THROW(upload_file(gates_.path(), "large", address("runs/large"), [&](bool) { ++parts; }),
               Error);
  EXPECT_EQ(parts, 0);  // nothing was taken
  refuse("", 0, 0);
  upload_file(gates_.path(), "large", address("runs/large"), [&](bool) { ++parts; });
  EXPECT_EQ(parts, 4);  // after each, and at the end
}

TEST_F(RemoteRecoveryTest, AFileThatIsRefusedHoldsUpNothingElse) {
  std::vector<std::string> files = {"a", "bad", "z", "sub/b"};
  Training training = toy({{"limit", 3}, {"files", files}});
  training.run.storage_timeout = std::chrono::seconds(5);
  refuse("PUT.*/toy/bad", 0, 1'000'000);
  Error error = error_of([&] { run_training(training); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("does not have: bad; "), HasSubstr("storage_timeout")));
  EXPECT_THAT(names(), IsSupersetOf({"a", "z", "sub/b", "result.json", "logs/rank-0.log"}));
  EXPECT_FALSE(has("bad"));
  std::string journal;
  for (const std::string& name : names())
    if (name.starts_with("journal/")) journal += read_remote(address("runs/toy/" + name), 1 << 20);
  EXPECT_THAT(journal, AllOf(HasSubstr("run_ended"), HasSubstr("finished")));
  refuse("", 0, 0);
  run_training(restored(spools(home_).front() + "/toy", {{"limit", 3}}));
  EXPECT_TRUE(has("bad"));
  EXPECT_THAT(spools(home_), ElementsAre());
}

struct RefusesToBegin : Callback {
  void on_run_start(const RunInfo&) override { throw std::runtime_error("not today"); }
};

TEST_F(RemoteRecoveryTest, ARunThatCannotGoOnLeavesNoFolder) {
  message_of([&] { run_training(toy({{"limit", 4}, {"break_at", 2}})); });
  TemporaryFolder other;
  set_home(other);
  Training next = restored(uri(), {{"limit", 4}});
  next.run.callbacks = {std::make_shared<RefusesToBegin>()};
  testing::internal::CaptureStderr();
  EXPECT_THAT(message_of([&] { run_training(next); }), HasSubstr("not today"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("cannot be stored")));
  EXPECT_THAT(spools(other), ElementsAre());
  EXPECT_THAT(numbers(run_training(restored(uri(), {{"limit", 4}}))), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace manta::train
