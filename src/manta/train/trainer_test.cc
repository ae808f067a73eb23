// The earlier style: workers that stay between runs, and results of functions.

#include "manta/train/trainer.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/sources.h"
#include "manta/train/callback.h"
#include "manta/train/session.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

int calls = 0;  // of this worker

TrainerOptions two_workers(const TemporaryFolder& storage) {
  return {.num_workers = 2, .name = "trainer", .storage_path = storage.path(), .verbose = 0};
}

Json who_am_i(const Json& config) {
  train::report({{"x", config.at("x")}});
  return {{"rank", get_context().world_rank},
          {"pid", ::getpid()},
          {"calls", ++calls},
          {"x", config.at("x")}};
}

TEST(TrainerTest, WorkersStayBetweenRunsAndReturnResults) {
  TemporaryFolder storage;
  Trainer trainer("none", two_workers(storage));
  EXPECT_THAT(message_of([&] { trainer.run(who_am_i, {{"x", 1}}); }), HasSubstr("before start()"));
  EXPECT_THAT(message_of([&] { trainer.latest_run(); }), HasSubstr("no run has begun yet"));
  trainer.start();
  std::vector<Json> first = trainer.run(who_am_i, {{"x", 1}});
  std::vector<Json> second = trainer.run(who_am_i, {{"x", 2}});
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  for (int rank : {0, 1}) {
    EXPECT_EQ(first[rank].at("rank"), rank);
    EXPECT_NE(first[rank].at("pid"), ::getpid());
    EXPECT_EQ(first[rank].at("pid"), second[rank].at("pid"));
    EXPECT_EQ(second[rank].at("calls"), 2);
    EXPECT_EQ(second[rank].at("x"), 2);
  }
  EXPECT_EQ(trainer.latest_run().path, trainer.logdir() + "/run_002");
  EXPECT_EQ(trainer.latest_run().metrics.at("x"), 2);
  EXPECT_TRUE(fs::exists(storage / "trainer/logs/rank-1.log"));

  trainer.shutdown();
  EXPECT_TRUE(eventually([&] { return ::kill(first[0].at("pid").get<int>(), 0) != 0; }));
  EXPECT_THAT(message_of([&] { trainer.run(who_am_i); }), HasSubstr("after shutdown()"));
  trainer.start();
  EXPECT_EQ(trainer.run(who_am_i, {{"x", 3}})[0].at("calls"), 1);  // others
}

TEST(TrainerTest, ResultsMayBeLargeOrNothing) {
  TemporaryFolder storage;
  Trainer trainer("none", two_workers(storage));
  trainer.start();
  auto sizes = trainer.run([] { return std::vector<double>(300'000, get_context().world_rank); });
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[1].size(), 300'000u);
  EXPECT_EQ(sizes[1].back(), 1);
  static_assert(std::is_void_v<decltype(trainer.run([] {}))>);
  trainer.run([] { train::report({{"n", 1}}); });
  EXPECT_EQ(trainer.latest_run().metrics.at("n"), 1);
}

int64_t rows_of_mine() {
  int64_t rows = 0;
  for (const auto& batch : get_dataset_shard("train").iter_batches({.batch_size = 5}))
    rows += batch->num_rows();
  return rows;
}

TEST(TrainerTest, GivesWorkersTheirPartOfTheData) {
  TemporaryFolder storage;
  std::vector<Json> items(100, Json{{"x", 1}});
  Trainer trainer("none", two_workers(storage));
  trainer.start();
  for (int run = 0; run < 2; ++run) {
    auto rows = trainer.run(rows_of_mine, {}, {.dataset = {{"train", data::from_items(items)}}});
    EXPECT_THAT(rows, ElementsAre(50, 50));
  }
}

TEST(TrainerTest, ALostWorkerIsReplacedAndTheRunGoesOn) {
  TemporaryFolder storage;
  TrainerOptions options = two_workers(storage);
  options.num_workers = 1;
  Trainer trainer("none", options);
  trainer.start();
  auto dies = [](const Json&) {
    Checkpoint from = get_checkpoint();
    int first = from ? from.to_dict().values.at("n").get<int>() + 1 : 0;
    for (int n = first; n < 4; ++n) {
      train::report({{"n", n}}, Checkpoint::from_dict({.values = {{"n", n}}}));
      if (n == 2 && get_context().attempt == 0) ::raise(SIGKILL);
    }
    return first;
  };
  EXPECT_GT(trainer.run(dies)[0], 0);
  Result run = trainer.latest_run();
  EXPECT_EQ(run.metrics.at("n"), 3);
  EXPECT_EQ(run.metrics_history.size(), 4u);
  // Begins from a checkpoint of another run.
  auto from = trainer.run([] { return get_checkpoint().to_dict().values.at("n").get<int>(); }, {},
                          {.checkpoint = run.checkpoint});
  EXPECT_THAT(from, ElementsAre(3));
}

TEST(TrainerTest, AWorkerThatDiesBetweenRunsIsReplaced) {
  TemporaryFolder storage;
  TrainerOptions options = two_workers(storage);
  options.max_retries = 0;
  Trainer trainer("none", options);
  trainer.start();
  auto before = trainer.run([] { return static_cast<int>(::getpid()); });
  ASSERT_EQ(::kill(before[1], SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return ::kill(before[1], 0) != 0; }));
  auto after = trainer.run([] { return static_cast<int>(::getpid()); });
  EXPECT_NE(after[1], before[1]);
}

TEST(TrainerTest, WhatAFunctionThrowsEndsTheRunAndTheNextWorks) {
  TemporaryFolder storage;
  Trainer trainer("none", two_workers(storage));
  trainer.start();
  std::string message = message_of([&] {
    trainer.run([] {
      std::ofstream(get_context().run_folder + "/attempt-" + std::to_string(get_context().attempt));
      if (get_context().world_rank == 1) throw std::runtime_error("my own mistake");
    });
  });
  EXPECT_THAT(message, HasSubstr("my own mistake"));
  EXPECT_THAT(message, HasSubstr("its log: " + (storage / "trainer/logs/rank-1.log")));
  EXPECT_FALSE(fs::exists(storage / "trainer/run_001/attempt-1"));  // not tried again
  EXPECT_THAT(trainer.run([] { return 7; }), ElementsAre(7, 7));
}

// The checkpoints as the run kept them, and the reason.
TEST(TrainerTest, TheLatestRunHasTheBestCheckpointsLastAndSaysWhyItFailed) {
  TemporaryFolder storage;
  TrainerOptions options = two_workers(storage);
  options.num_workers = 1;
  Trainer trainer("none", options);
  trainer.start();
  auto reports_and_fails = [] {
    for (double score : {2.0, 5.0, 1.0, 4.0}) {
      train::report({{"score", score}}, Checkpoint::from_dict({.values = {{"score", score}}}));
    }
    throw std::runtime_error("my own mistake");
  };
  auto scores = [](const Result& result) {
    std::vector<double> all;
    for (const auto& [checkpoint, metrics] : result.best_checkpoints)
      all.push_back(metrics.at("score"));
    return all;
  };
  CheckpointConfig best{.num_to_keep = 3, .checkpoint_score_attribute = "score"};
  message_of([&] { trainer.run(reports_and_fails, {}, {.checkpoint_strategy = best}); });
  Result failed = trainer.latest_run();
  EXPECT_THAT(scores(failed), ElementsAre(2, 4, 5));
  EXPECT_EQ(failed.outcome, RunOutcome::kFailed);
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->kind(), ErrorKind::kUserCode);
  EXPECT_THAT(failed.error->what(), AllOf(HasSubstr("rank 0 failed"), HasSubstr("my own mistake")));
  best.checkpoint_score_order = "min";
  message_of([&] { trainer.run(reports_and_fails, {}, {.checkpoint_strategy = best}); });
  EXPECT_THAT(scores(trainer.latest_run()), ElementsAre(4, 2, 1));
  trainer.run([] { train::report({{"score", 1}}); });
  EXPECT_FALSE(trainer.latest_run().error);
}

class StopAtOnce final : public Callback {
 public:
  Decision on_report(const RunInfo&, const ReportRecord&) override { return Decision::stop(); }
};

TEST(TrainerTest, ACallbackMayEndARunWhichThenHasNoResults) {
  TemporaryFolder storage;
  Trainer trainer("none", two_workers(storage));
  trainer.start();
  auto never_returns = [] {
    while (true) train::report({{"n", 1}});
    return 1;
  };
  EXPECT_THAT(message_of([&] {
                trainer.run(never_returns, {}, {.callbacks = {std::make_shared<StopAtOnce>()}});
              }),
              HasSubstr("before the functions had returned"));
  EXPECT_THAT(trainer.run([] { return 7; }), ElementsAre(7, 7));
}

TEST(TrainerTest, BadOptionsAreRefused) {
  TemporaryFolder storage;
  EXPECT_THAT(message_of([] { Trainer("horovod"); }),
              HasSubstr("there is no backend 'horovod' (known: none"));
  EXPECT_THAT(message_of([] { Trainer("none", {.num_workers = -1}); }), HasSubstr("num_workers"));
  EXPECT_THAT(message_of([] { Trainer("none", {.torch_config = {.backend = "gloo"}}); }),
              HasSubstr("the workers have no PyTorch"));
  EXPECT_THAT(message_of([] { Trainer("none", {.collective_timeout = std::chrono::seconds(0)}); }),
              HasSubstr("collective_timeout"));
  EXPECT_THAT(message_of([] { Trainer("none", {.stop_grace = std::chrono::seconds(-1)}); }),
              HasSubstr("stop_grace"));
  EXPECT_THAT(message_of([] { Trainer("none", {.num_workers = 5000}).start(); }),
              HasSubstr("asks for 5000 workers"));
  Trainer trainer("none", two_workers(storage));
  trainer.start();
  EXPECT_THAT(message_of([&] {
                trainer.run([] { return 1; }, {{"lr", 1}});
              }),
              HasSubstr("the function takes none"));
  trainer.run([] {});
  Trainer same("none", two_workers(storage));
  EXPECT_THAT(message_of([&] { same.start(); }), HasSubstr(storage / "trainer"));
}

}  // namespace
}  // namespace manta::train
