#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manta/base/error_internal.h"
#include "manta/train/controller_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FailurePolicyTest, Table) {
  Failure plain{.rank = 1, .message = "x"};
  Failure fatal{.rank = 1, .message = "x", .fatal = true};
  Failure wrong{.rank = 1, .kind = ErrorKind::kInvalidArgument, .message = "x"};
  struct {
    int max_failures;
    int so_far;
    Failure failure;
    FailureDecision expected;
  } cases[] = {
      {0, 0, plain, FailureDecision::kRaise},       {1, 0, plain, FailureDecision::kRestart},
      {1, 1, plain, FailureDecision::kRaise},       {3, 2, plain, FailureDecision::kRestart},
      {3, 3, plain, FailureDecision::kRaise},       {-1, 0, plain, FailureDecision::kRestart},
      {-1, 9999, plain, FailureDecision::kRestart}, {3, 0, fatal, FailureDecision::kRaise},
      {-1, 0, fatal, FailureDecision::kRaise},      {-1, 0, wrong, FailureDecision::kRaise},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(decide({.max_failures = one.max_failures}, one.so_far, one.failure), one.expected)
        << one.max_failures << ' ' << one.so_far << ' ' << one.failure.fatal;
  }
}

// A short text for each action, notes left out: "start 1 from 3 next 4".
std::string to_string(const std::vector<Action>& actions) {
  std::string text;
  auto add = [&](const std::string& one) { text += (text.empty() ? "" : "; ") + one; };
  for (const Action& action : actions) {
    if (auto* start = std::get_if<StartGroup>(&action)) {
      add(str("start ", start->attempt, " from ",
              start->checkpoint ? std::to_string(*start->checkpoint) : "none", " next ",
              start->next_report));
    } else if (auto* stop = std::get_if<StopGroup>(&action)) {
      add(str("stop ", stop->attempt));
    } else if (auto* timer = std::get_if<StartTimer>(&action)) {
      add(str("timer ", timer->attempt));
    } else if (auto* commit = std::get_if<Commit>(&action)) {
      add(str("commit ", commit->index, commit->has_checkpoint ? " with checkpoint" : ""));
    } else if (auto* acknowledge = std::get_if<Acknowledge>(&action)) {
      add(str("acknowledge ", acknowledge->index));
    } else if (auto* announce = std::get_if<Announce>(&action)) {
      add(str("announce ", announce->index));
    } else if (std::holds_alternative<AskGroupToStop>(action)) {
      add("ask");
    } else if (auto* from = std::get_if<StopGroupFrom>(&action)) {
      add(str("stop from ", from->ask));
    } else if (std::holds_alternative<StartGrace>(action)) {
      add("grace");
    } else if (std::holds_alternative<TakeStacks>(action)) {
      add("stacks");
    } else if (std::holds_alternative<Warn>(action)) {
      add("warn");
    } else if (auto* end = std::get_if<End>(&action)) {
      add(str("end ", outcome_name(end->outcome)));
    }
  }
  return text;
}

// Feeds events to a controller; keeps the end.
struct Story {
  explicit Story(int num_workers, int max_failures = 0, Controller::Start start = {})
      : controller(num_workers, {.max_failures = max_failures}, start) {
    begun = to_string(controller.begin());
  }
  std::string operator()(const Event& event) {
    auto actions = controller.handle(event);
    // Callbacks without wishes.
    if (auto* announce = actions.empty() ? nullptr : std::get_if<Announce>(&actions.back())) {
      if (has_no_wishes) {
        Judged judged{announce->attempt, announce->index};
        actions.pop_back();
        for (Action& action : controller.handle(judged)) actions.push_back(std::move(action));
      }
    }
    for (const Action& action : actions) {
      if (auto* last = std::get_if<End>(&action)) end = *last;
      if (auto* last = std::get_if<Commit>(&action)) commit = *last;
      if (auto* note = std::get_if<Note>(&action)) notes.push_back(*note);
      if (auto* warn = std::get_if<Warn>(&action)) warning = warn->message;
    }
    return to_string(actions);
  }
  Controller controller;
  bool has_no_wishes = true;
  std::string begun;
  std::optional<End> end;
  std::optional<Commit> commit;
  std::vector<Note> notes;
  std::string warning;
};

const std::vector<CheckpointFile> kFiles{{"weights", 8, "0123456789abcdef"}};

Reported report(int attempt, int rank, int64_t index, bool has_checkpoint = false,
                Json positions = {}) {
  return {attempt, rank, index, {{"rank", rank}}, std::move(positions), has_checkpoint};
}
Reported with_fingerprint(Reported report, uint64_t fingerprint) {
  report.fingerprint = fingerprint;
  return report;
}
Failed failed(int attempt, int rank, const std::string& message, bool consequence = false) {
  return {attempt, {rank, ErrorKind::kUserCode, message, consequence}};
}

TEST(ControllerTest, AReportIsCommittedWhenEveryRankHasMadeIt) {
  Story story(2);
  EXPECT_EQ(story.begun, "start 0 from none next 0");
  EXPECT_EQ(story(GroupStarted{0}), "");
  EXPECT_EQ(story(report(0, 1, 0)), "");
  EXPECT_EQ(story(report(0, 0, 0)), "commit 0");
  EXPECT_EQ(story.commit->metrics, Json({{"rank", 0}}));
  EXPECT_EQ(story(CommitDone{0, 0, ""}), "acknowledge 0");
  EXPECT_EQ(story(CommitDone{0, 0, ""}), "");
  EXPECT_EQ(story(Finished{0, 0}), "");
  EXPECT_EQ(story(Finished{0, 1}), "stop 0");
  EXPECT_FALSE(story.controller.ended());
  EXPECT_EQ(story(GroupStopped{0}), "end finished");
  EXPECT_TRUE(story.controller.ended());
  EXPECT_EQ(story(Interrupted{}), "");
  EXPECT_EQ(story(failed(0, 0, "late")), "");
}

TEST(ControllerTest, ACheckpointWaitsForTheFilesOfRanksThatHaveOne) {
  Story story(3);
  EXPECT_EQ(story(report(0, 0, 0, true)), "");
  EXPECT_EQ(story(report(0, 1, 0, false)), "");
  EXPECT_EQ(story(report(0, 2, 0, true)), "");
  EXPECT_EQ(story(Wrote{0, 2, 0, {{"b", 2, "y"}}}), "");
  EXPECT_EQ(story(Wrote{0, 2, 0, {{"again", 2, "y"}}}), "");
  EXPECT_EQ(story(Wrote{0, 0, 0, {{"a", 1, "x"}}}), "commit 0 with checkpoint");
  ASSERT_EQ(story.commit->files.size(), 2u);
  EXPECT_EQ(story.commit->files[0][0].name, "a");
  EXPECT_EQ(story.commit->files[2][0].name, "b");
}

TEST(ControllerTest, CommitsAreOneAtATimeAndInOrder) {
  Story story(1);
  EXPECT_EQ(story(report(0, 0, 0, true)), "");
  EXPECT_EQ(story(report(0, 0, 1)), "");
  EXPECT_EQ(story(Finished{0, 0}), "");
  EXPECT_EQ(story(Wrote{0, 0, 0, kFiles}), "commit 0 with checkpoint");
  EXPECT_EQ(story(CommitDone{0, 0, ""}), "acknowledge 0; commit 1");
  EXPECT_EQ(story(failed(0, 0, "at exit, with nothing left to do")), "");
  EXPECT_EQ(story(CommitDone{0, 1, ""}), "acknowledge 1; stop 0");
  EXPECT_EQ(story(Interrupted{}), "");  // it is done already
  EXPECT_EQ(story(GroupStopped{0}), "end finished");
}

TEST(ControllerTest, ARestartBeginsAfterTheLastCheckpoint) {
  Story story(1, 2);
  for (int64_t i = 0; i < 3; ++i) {
    story(report(0, 0, i, i == 1));
    if (i == 1) story(Wrote{0, 0, 1, kFiles});
    EXPECT_EQ(story(CommitDone{0, i, ""}), str("acknowledge ", i));
  }
  EXPECT_EQ(story(failed(0, 0, "boom")), "stop 0");
  EXPECT_EQ(story(failed(0, 0, "second")), "");
  EXPECT_EQ(story(GroupStopped{0}), "start 1 from 1 next 2");
  EXPECT_EQ(story(GroupStopped{0}), "");
  EXPECT_EQ(story(report(0, 0, 3)), "");  // of the old attempt
  EXPECT_EQ(story(report(1, 0, 2)), "commit 2");
  EXPECT_EQ(story(CommitDone{1, 2, ""}), "acknowledge 2");
  EXPECT_EQ(story(failed(1, 0, "boom")), "stop 1");
  EXPECT_EQ(story(GroupStopped{1}), "start 2 from 1 next 2");
  EXPECT_EQ(story(failed(2, 0, "boom 3")), "stop 2");
  EXPECT_EQ(story(GroupStopped{2}), "end failed");
  EXPECT_EQ(story.end->failure->message, "boom 3");
}

TEST(ControllerTest, ARestoredRunGoesOn) {
  Story story(1, 1, {.checkpoint = 4, .next_report = 5, .attempt = 3});
  EXPECT_EQ(story.begun, "start 3 from 4 next 5");
  EXPECT_EQ(story(report(3, 0, 5)), "commit 5");
  EXPECT_EQ(story(failed(3, 0, "boom")), "stop 3");
  EXPECT_EQ(story(CommitDone{3, 5, ""}), "");
  EXPECT_EQ(story(GroupStopped{3}), "start 4 from 4 next 5");
}

TEST(ControllerTest, ACommitInProgressCountsForTheRestart) {
  for (bool commit_first : {true, false}) {
    for (bool good : {true, false}) {
      Story story(1, 1);
      story(report(0, 0, 0, true));
      EXPECT_EQ(story(Wrote{0, 0, 0, kFiles}), "commit 0 with checkpoint");
      EXPECT_EQ(story(failed(0, 0, "boom")), "stop 0");
      CommitDone done{0, 0, good ? "" : "disk full"};
      EXPECT_EQ(commit_first ? story(done) : story(GroupStopped{0}), "");
      EXPECT_EQ(commit_first ? story(GroupStopped{0}) : story(done),
                good ? "start 1 from 0 next 1" : "start 1 from none next 0");
    }
  }
}

TEST(ControllerTest, ACauseOutranksConsequences) {
  Story story(3);
  EXPECT_EQ(story(failed(0, 0, "peer is gone", true)), "timer 0");
  EXPECT_EQ(story(failed(0, 1, "peer is gone, too", true)), "");
  EXPECT_EQ(story(failed(0, 2, "segmentation fault")), "stop 0");
  EXPECT_EQ(story(TimerFired{0}), "");
  EXPECT_EQ(story(GroupStopped{0}), "end failed");
  EXPECT_EQ(story.end->failure->rank, 2);
  EXPECT_EQ(story.end->failure->message, "segmentation fault");
}

TEST(ControllerTest, WithoutABetterCauseTheFirstConsequenceIsTheCause) {
  Story story(2);
  EXPECT_EQ(story(TimerFired{0}), "");
  EXPECT_EQ(story(failed(0, 1, "first", true)), "timer 0");
  EXPECT_EQ(story(failed(0, 0, "second", true)), "");
  EXPECT_EQ(story(TimerFired{0}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end failed");
  EXPECT_EQ(story.end->failure->message, "first");
}

TEST(ControllerTest, TheDataReaderIsACause) {
  Story story(2);
  EXPECT_EQ(story(failed(0, 0, "no more data", true)), "timer 0");
  EXPECT_EQ(story(failed(0, kDataReader, "reader killed", true)), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end failed");
  EXPECT_EQ(story.end->failure->rank, kDataReader);
}

TEST(ControllerTest, AFailedCommitIsAFailure) {
  Story story(1, 1);
  EXPECT_EQ(story(report(0, 0, 0)), "commit 0");
  EXPECT_EQ(story(CommitDone{0, 0, "disk full"}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "start 1 from none next 0");
  EXPECT_EQ(story(report(1, 0, 0)), "commit 0");
  EXPECT_EQ(story(CommitDone{1, 0, "disk full"}), "stop 1");
  EXPECT_EQ(story(GroupStopped{1}), "end failed");
  EXPECT_EQ(story.end->failure->kind, ErrorKind::kIo);
  EXPECT_EQ(story.end->failure->rank, kDriver);
}

TEST(ControllerTest, AFatalErrorOfTheDriverEndsTheRunWhateverEndedTheAttempt) {
  CommitDone gone{0, 0, "the folder is gone", ErrorKind::kIo, true};
  for (bool judged : {false, true}) {
    for (bool failed_before : {false, true}) {
      Story story(1, -1);
      EXPECT_EQ(story(report(0, 0, 0)), "commit 0");
      Event fatal = gone;
      if (judged) {
        story.has_no_wishes = false;
        EXPECT_EQ(story(CommitDone{0, 0, ""}), "announce 0");
        fatal = Judged{0, 0, Decision::kGoOn, {}, gone.error, gone.kind, true};
      }
      if (failed_before) {
        EXPECT_EQ(story(failed(0, 0, "boom")), "stop 0");
      }
      EXPECT_EQ(story(fatal), failed_before ? "" : "stop 0");
      EXPECT_EQ(story(GroupStopped{0}), "end failed");
      EXPECT_EQ(story.end->failure->message, gone.error);
      EXPECT_EQ(story.end->failure->rank, kDriver);
    }
  }
}

TEST(ControllerTest, ACommitThatCannotSucceedIsNotTriedAgain) {
  Story story(1, -1);
  EXPECT_EQ(story(report(0, 0, 0)), "commit 0");
  EXPECT_EQ(story(CommitDone{0, 0, "no metric 'loss'", ErrorKind::kInvalidArgument}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end failed");
}

TEST(ControllerTest, RanksAtDifferentPositionsFailTheRun) {
  Story story(2, -1);
  EXPECT_EQ(story(report(0, 1, 0, false, {{"train", 10}})), "");
  EXPECT_EQ(story(report(0, 0, 0, false, {{"train", 12}})), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end failed");
  EXPECT_THAT(story.end->failure->message,
              AllOf(HasSubstr("rank 1 at {\"train\":10}"), HasSubstr("rank 0 at {\"train\":12}")));
}

TEST(ControllerTest, AReportOutOfOrderFailsTheRun) {
  for (int64_t index : {0, 2}) {
    Story story(1, -1);
    story(report(0, 0, 0));
    EXPECT_EQ(story(report(0, 0, index)), "stop 0");
    story(CommitDone{0, 0, ""});
    EXPECT_EQ(story(GroupStopped{0}), "end failed");
    EXPECT_THAT(story.end->failure->message, HasSubstr("when report 1 was due"));
  }
}

TEST(ControllerTest, UnequalNumbersOfReportsFailTheRun) {
  for (bool finished_first : {true, false}) {
    Story story(2, -1);
    story(report(0, 0, 0));
    if (finished_first) {
      EXPECT_EQ(story(Finished{0, 1}), "stop 0");
    } else {
      story(report(0, 1, 0));
      story(CommitDone{0, 0, ""});
      EXPECT_EQ(story(Finished{0, 1}), "");
      EXPECT_EQ(story(report(0, 0, 1)), "stop 0");
    }
    EXPECT_EQ(story(GroupStopped{0}), "end failed");
    EXPECT_THAT(
        story.end->failure->message,
        HasSubstr(finished_first ? "it finished after it had reported 0 times, but rank 0 has "
                                   "reported 1 time;"
                                 : "it finished after it had reported 1 time, but rank 0 has "
                                   "reported 2 times;"));
  }
}

// Also where they could be started again: they would part again.
TEST(ControllerTest, RanksThatWaitForEachOtherFailTheRun) {
  Story story(2, -1);
  story(report(0, 0, 0));
  Activity in_report{.kind = Wait::kReport, .number = 0, .what = "in train::report"};
  Activity in_barrier{
      .kind = Wait::kCollective, .number = 0, .what = "in a barrier", .collectives = 1};
  EXPECT_EQ(story(Waits{0, 0, in_report}), "");
  EXPECT_EQ(story(Waits{0, 1, in_barrier}), "stacks; stop 0");
  EXPECT_EQ(story(Waits{0, 1, in_barrier}), "");
  EXPECT_EQ(story(GroupStopped{0}), "end failed");
  EXPECT_EQ(story.end->failure->rank, 1);
  EXPECT_EQ(story.end->failure->kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(story.end->failure->message, HasSubstr("in a barrier that rank 0 never joins"));
}

TEST(ControllerTest, ARankThatHasReturnedIsTheCauseOfWhatBreaksOffInOthers) {
  for (bool finished_first : {true, false}) {
    Story story(2, -1);
    Failed broken = failed(0, 1, "rank 0 left its group", true);
    broken.activity =
        Activity{.kind = Wait::kCollective, .number = 3, .what = "in a barrier", .collectives = 4};
    if (finished_first) {
      EXPECT_EQ(story(Finished{0, 0, 3, 0}), "");
      EXPECT_EQ(story(broken), "stacks; stop 0");
    } else {
      EXPECT_EQ(story(broken), "timer 0");
      EXPECT_EQ(story(Finished{0, 0, 3, 0}), "stacks; stop 0");
    }
    EXPECT_EQ(story(GroupStopped{0}), "end failed");
    EXPECT_THAT(story.end->failure->message,
                HasSubstr("in a barrier that rank 0 never joins: rank 0 has returned"));
  }
}

// The reader may have been slow: that is explained, and tried again.
TEST(ControllerTest, AWaitForRowsThatWasGivenUpIsNoReasonNotToStartAgain) {
  Story story(2, 1);
  Activity in_rows{.kind = Wait::kRows, .number = 0, .what = "for rows", .passes = 1};
  in_rows.taken = {{0, 9}};
  Activity in_barrier{.kind = Wait::kCollective, .number = 0, .what = "in a barrier"};
  in_barrier.collectives = in_barrier.passes = 1;
  in_barrier.taken = {{0, 4}};
  EXPECT_EQ(story(Waits{0, 0, in_rows}), "");
  EXPECT_EQ(story(Waits{0, 1, in_barrier}), "");
  Failed timeout{0, {1, ErrorKind::kTimeout, "waited 5 s", true}, in_barrier};
  EXPECT_EQ(story(timeout), "stacks; stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "start 1 from none next 0");
  EXPECT_THAT(story.notes[0].details["message"].get<std::string>(),
              AllOf(HasSubstr("it waits in a barrier that rank 0 never joins: rank 0 waits for "
                              "rows"),
                    HasSubstr("(waited 5 s)")));
  // A peer that was lost says nothing about the order of steps.
  EXPECT_EQ(story(Waits{1, 0, in_rows}), "");
  EXPECT_EQ(story(Failed{1, {1, ErrorKind::kWorkerLost, "lost", true}, in_barrier}), "timer 1");
}

TEST(ControllerTest, FilesOfAReportThatWasNotMadeAreAFailure) {
  Story story(2, -1);
  EXPECT_EQ(story(report(0, 0, 0, true)), "");
  EXPECT_EQ(story(Wrote{0, 0, 0, kFiles}), "");
  EXPECT_EQ(story(Wrote{0, 1, 0, kFiles}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end failed");
  EXPECT_EQ(story.end->failure->kind, ErrorKind::kCorrupt);
  EXPECT_THAT(story.end->failure->message, HasSubstr("of report 0 when report 0 was due"));
}

TEST(ControllerTest, WhatAFinishedRankToldLateCountsForNothing) {
  Story story(2, -1);
  EXPECT_EQ(story(Finished{0, 0, 5, 0}), "");
  EXPECT_EQ(story(Waits{0, 0, {.kind = Wait::kCollective, .number = 2, .collectives = 3}}), "");
  EXPECT_EQ(story(Waits{0, 1, {.kind = Wait::kCollective, .number = 4, .collectives = 5}}), "");
  EXPECT_EQ(story(Finished{0, 1, 5, 0}), "stop 0");
}

TEST(ControllerTest, AnEmptyCheckpointIsNotCommitted) {
  for (int giver : {0, 1}) {
    Story story(2, -1);
    EXPECT_EQ(story(report(0, 0, 0, giver == 0)), "");
    EXPECT_EQ(story(report(0, 1, 0, giver == 1)), "");
    EXPECT_EQ(story(Wrote{0, giver, 0, {}}), "stop 0");
    EXPECT_EQ(story(GroupStopped{0}), "end failed");
    EXPECT_EQ(story.end->failure->rank, giver);
    EXPECT_THAT(
        story.end->failure->message,
        HasSubstr(str("the checkpoint of report 0, given by rank ", giver, ", has no files")));
    EXPECT_EQ(story.end->failure->message.find("rank 0 must give it") != std::string::npos,
              giver == 1);
  }
}

// Refused before anything of it is written: what is there from before stays.
TEST(ControllerTest, ACheckpointThatLacksPartsOfRanksIsRefused) {
  auto part = [](int rank) {
    Reported one = report(0, rank, 0, true);
    one.needs_all_ranks = true;
    return one;
  };
  for (bool gives_another : {false, true}) {
    Story story(3, -1);
    EXPECT_EQ(story(report(0, 2, 0, gives_another)), "");
    EXPECT_EQ(story(part(1)), "");
    EXPECT_EQ(story(report(0, 0, 0)), "stop 0");
    EXPECT_EQ(story(GroupStopped{0}), "end failed");
    EXPECT_EQ(story.end->failure->kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(story.end->failure->message,
                AllOf(HasSubstr("the checkpoint of report 0 needs a part of every rank"),
                      HasSubstr("only rank 1 gave one, not ranks 0, 2")));
  }
  Story whole(2);
  whole(part(0));
  whole(part(1));
  whole(Wrote{0, 0, 0, kFiles});
  EXPECT_EQ(whole(Wrote{0, 1, 0, kFiles}), "commit 0 with checkpoint");
}

TEST(ControllerTest, DifferentModelsAreWarnedOfOnce) {
  Story story(3);
  for (int64_t index = 0; index < 3; ++index) {
    uint64_t other = index == 0 ? 5 : 6;  // from the second report on
    story(with_fingerprint(report(0, 0, index, true), 5));
    story(report(0, 1, index));  // does not tell
    story(with_fingerprint(report(0, 2, index, true), other));
    story(Wrote{0, 0, index, kFiles});
    EXPECT_EQ(story(Wrote{0, 2, index, {}}),
              str(index == 1 ? "warn; " : "", "commit ", index, " with checkpoint"));
    story(CommitDone{0, index, ""});
  }
  EXPECT_THAT(story.warning, HasSubstr("the model's parameters differ between ranks 0 and 2: was "
                                       "prepare_model forgotten? At report 1"));
}

TEST(ControllerTest, AModelThatOneRankTrainedAloneIsWarnedOfOnce) {
  auto alone = [](int64_t index) {
    Reported one = with_fingerprint(report(0, 0, index, true), 5);
    one.trained_alone = true;
    return one;
  };
  Story story(2);
  for (int64_t index = 0; index < 2; ++index) {
    story(alone(index));
    story(report(0, 1, index));
    EXPECT_EQ(story(Wrote{0, 0, index, kFiles}),
              str(index == 0 ? "warn; " : "", "commit ", index, " with checkpoint"));
    story(CommitDone{0, index, ""});
  }
  EXPECT_THAT(story.warning, AllOf(HasSubstr("only rank 0 of 2 gives its model at report 0"),
                                   HasSubstr("was prepare_model forgotten?")));
  Story both(2);  // can be compared, and are the same
  both(alone(0));
  both(with_fingerprint(report(0, 1, 0, true), 5));
  both(Wrote{0, 0, 0, kFiles});
  EXPECT_EQ(both(Wrote{0, 1, 0, {}}), "commit 0 with checkpoint");
  Story single(1);
  single(alone(0));
  EXPECT_EQ(single(Wrote{0, 0, 0, kFiles}), "commit 0 with checkpoint");
}

TEST(ControllerTest, AnInterruptStopsTheGroup) {
  Story story(2, 5);
  story(report(0, 0, 0));
  EXPECT_EQ(story(Interrupted{}), "stop 0");
  EXPECT_EQ(story(Interrupted{}), "");
  EXPECT_EQ(story(failed(0, 0, "killed")), "");
  EXPECT_EQ(story(GroupStopped{0}), "end interrupted");
}

TEST(ControllerTest, AnInterruptEndsARunThatWouldBeRestarted) {
  Story story(1, 5);
  EXPECT_EQ(story(failed(0, 0, "boom")), "stop 0");
  EXPECT_EQ(story(Interrupted{}), "");
  EXPECT_EQ(story(GroupStopped{0}), "end interrupted");
}

TEST(ControllerTest, ALoopThatAsksEndsByItself) {
  Story story(2, 5);
  story(GroupStarted{0});
  EXPECT_EQ(story(Interrupted{}), "grace; ask");
  EXPECT_EQ(story(Interrupted{}), "");
  EXPECT_EQ(story(Asks{0, 0, 7}), "");
  EXPECT_EQ(story(Asks{0, 0, 9}), "");  // once
  EXPECT_EQ(story(Asks{0, 1, 6}), "stop from 8");
  story(report(0, 0, 0, true));
  story(report(0, 1, 0));
  EXPECT_EQ(story(Wrote{0, 0, 0, kFiles}), "commit 0 with checkpoint");
  story(Finished{0, 0, 0, 0, 8, true});
  story(Finished{0, 1, 0, 0, 8, true});
  EXPECT_EQ(story(CommitDone{0, 0, ""}), "acknowledge 0; stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end interrupted");
}

TEST(ControllerTest, ALoopThatDoesNotAskIsEndedAtOnce) {
  Story story(2, 5);
  story(GroupStarted{0});
  story(Interrupted{});
  EXPECT_EQ(story(Asks{0, 1, 0}), "");
  EXPECT_EQ(story(Asks{0, 0, 0}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end interrupted");
}

TEST(ControllerTest, ALoopThatEndsBeforeItIsToldHasFinished) {
  Story story(2);
  story(GroupStarted{0});
  story(Finished{0, 1, 0, 0, 3, false});
  EXPECT_EQ(story(Interrupted{}), "grace; ask");
  EXPECT_EQ(story(Asks{0, 0, 2}), "stop from 4");
  EXPECT_EQ(story(Finished{0, 0, 0, 0, 3, false}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end finished");
}

TEST(ControllerTest, ALoopHasTheGraceToEnd) {
  Story story(1);
  story(GroupStarted{0});
  story(Interrupted{});
  EXPECT_EQ(story(Asks{0, 0, 2}), "stop from 3");
  EXPECT_EQ(story(GraceIsOver{}), "warn; stop 0");
  EXPECT_THAT(story.warning, HasSubstr("stop_grace"));
  EXPECT_EQ(story(GroupStopped{0}), "end interrupted");
}

TEST(ControllerTest, AWorkerThatIsLostWhileTheRunEndsIsNotStartedAgain) {
  Story story(1, 5);
  story(GroupStarted{0});
  story(Interrupted{});
  story(Asks{0, 0, 2});
  EXPECT_EQ(story(failed(0, 0, "boom")), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "warn; end interrupted");
  EXPECT_THAT(story.warning, HasSubstr("rank 0 failed: boom"));
}

TEST(ControllerTest, ALoopThatLeavesANodeIsStartedAgain) {
  Story story(2);
  story(GroupStarted{0});
  EXPECT_EQ(story(NodeDrains{0}), "ask");
  EXPECT_EQ(story(NodeDrains{0}), "");
  story(Asks{0, 0, 0});
  EXPECT_EQ(story(Asks{0, 1, 0}), "stop from 1");  // it may ask yet, and need not
  story(Finished{0, 0, 0, 0, 1, true});
  EXPECT_EQ(story(Finished{0, 1, 0, 0, 1, true}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "start 1 from none next 0");
  EXPECT_EQ(story(NodeDrains{0}), "");  // of the attempt before
}

// It was no failure: none is allowed here.
TEST(ControllerTest, AGroupThatHasNotBegunLeavesANodeAtOnce) {
  Story story(2, 0, {.checkpoint = 7, .next_report = 8, .attempt = 3});
  EXPECT_EQ(story(NodeDrains{2}), "");  // of an older attempt
  EXPECT_EQ(story(NodeDrains{3}), "stop 3");
  EXPECT_EQ(story(NodeDrains{3}), "");
  EXPECT_EQ(story(GroupStarted{3}), "");  // too late
  EXPECT_EQ(story(GroupStopped{3}), "start 4 from 7 next 8");
  EXPECT_EQ(story(GroupStarted{4}), "");
  EXPECT_EQ(story(NodeDrains{4}), "ask");
}

TEST(ControllerTest, AnInterruptCountsWhileTheGroupLeavesANode) {
  Story story(1);
  EXPECT_EQ(story(NodeDrains{0}), "stop 0");
  story(Interrupted{});
  EXPECT_EQ(story(GroupStopped{0}), "end interrupted");
  Story told(1);
  told(GroupStarted{0});
  told(NodeDrains{0});
  told(Asks{0, 0, 0});
  EXPECT_EQ(told(Finished{0, 0, 0, 0, 1, true}), "stop 0");
  told(Interrupted{});
  EXPECT_EQ(told(GroupStopped{0}), "end interrupted");
}

TEST(ControllerTest, NotesTellTheStory) {
  Story story(1, 1);
  story(GroupStarted{0});
  story(failed(0, 0, "boom"));
  story(GroupStopped{0});
  story(Finished{1, 0});
  story(GroupStopped{1});
  std::vector<std::string> events;
  for (const Note& note : story.notes) events.push_back(str(note.attempt, ' ', note.event));
  EXPECT_THAT(events, testing::ElementsAre("0 group_started", "0 attempt_failed",
                                           "1 attempt_started", "1 run_ended"));
  EXPECT_EQ(story.notes[1].details["message"], "boom");
  EXPECT_EQ(story.notes[1].details["restart"], true);
  EXPECT_EQ(story.notes[3].details["outcome"], "finished");
}

TEST(ControllerTest, ADamagedCheckpointIsSteppedBackFrom) {
  Story story(1, 0, {.checkpoint = 7, .next_report = 8, .attempt = 3});
  EXPECT_EQ(story.begun, "start 3 from 7 next 8");
  EXPECT_EQ(story(CheckpointDamaged{2, 1}), "");  // of an older attempt
  EXPECT_EQ(story(CheckpointDamaged{3, 5}), "start 4 from 5 next 6");
  EXPECT_EQ(story(CheckpointDamaged{4, std::nullopt}), "start 5 from none next 0");
  EXPECT_EQ(story.notes.back().details["next_report"], 0);
  // It was no failure: none is allowed here, and the run goes on.
  EXPECT_EQ(story(GroupStarted{5}), "");
  EXPECT_EQ(story(report(5, 0, 0)), "commit 0");
  EXPECT_EQ(story(failed(5, 0, "boom")), "stop 5");
  EXPECT_EQ(story(CheckpointDamaged{5, 1}), "");
}

TEST(ControllerTest, AGroupForWhichThereIsLessRoomStartsWithFewerWorkers) {
  Story story(3, 0, {.checkpoint = 7, .next_report = 8, .attempt = 3});
  EXPECT_EQ(story(Resized{2, 1}), "");  // of an older attempt
  EXPECT_EQ(story(Resized{3, 2}), "start 4 from 7 next 8");
  // It was no failure, and two workers are all.
  EXPECT_EQ(story(GroupStarted{4}), "");
  EXPECT_EQ(story(report(4, 0, 8)), "");
  EXPECT_THAT(story(report(4, 1, 8)), testing::HasSubstr("commit 8"));
}

// One report of one worker, up to its announcement.
Story announced(int max_failures = 0) {
  Story story(1, max_failures);
  story.has_no_wishes = false;
  story(GroupStarted{0});
  story(Reported{0, 0, 0, {}, {}, true});
  EXPECT_EQ(story(Wrote{0, 0, 0, {{"file", 1, "x"}}}), "commit 0 with checkpoint");
  EXPECT_EQ(story(CommitDone{0, 0, ""}), "announce 0");
  return story;
}

TEST(ControllerDecisionTest, NothingIsAcknowledgedOrCommittedBeforeADecision) {
  Story story = announced();
  EXPECT_EQ(story(Reported{0, 0, 1, {}, {}, false}), "");
  EXPECT_EQ(story(Finished{0, 0}), "");
  EXPECT_EQ(story(Judged{0, 1}), "");  // of nothing
  EXPECT_EQ(story(Judged{0, 0}), "acknowledge 0; commit 1");
  EXPECT_EQ(story(Judged{0, 0}), "");
  EXPECT_EQ(story(CommitDone{0, 1, ""}), "announce 1");
  EXPECT_EQ(story(Judged{0, 1}), "acknowledge 1; stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "end finished");
}

TEST(ControllerDecisionTest, StopAndPauseEndTheRunWithoutAnAcknowledgement) {
  for (auto [decision, outcome] :
       {std::pair(Decision::kStop, "end stopped"), std::pair(Decision::kPause, "end paused")}) {
    Story story = announced(-1);
    EXPECT_EQ(story(Judged{0, 0, decision}), "stop 0");
    EXPECT_EQ(story(Failed{0, {0, ErrorKind::kWorkerLost, "killed"}}), "");
    EXPECT_EQ(story(Interrupted{}), "");
    EXPECT_EQ(story(GroupStopped{0}), outcome);
  }
}

TEST(ControllerDecisionTest, ADecisionToStopCountsThoughTheGroupHasFailedMeanwhile) {
  Story story = announced(-1);
  EXPECT_EQ(story(Failed{0, {0, ErrorKind::kWorkerLost, "killed"}}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "");
  EXPECT_EQ(story(Judged{0, 0, Decision::kStop}), "end stopped");
}

TEST(ControllerDecisionTest, ARestartIsNoFailureAndMayHaveOtherWorkers) {
  Story story = announced(0);
  EXPECT_EQ(story(Judged{0, 0, Decision::kRestart, 2}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "start 1 from 0 next 1");
  EXPECT_EQ(story(Reported{1, 0, 1, {}, {}, false}), "");
  EXPECT_EQ(story(Reported{1, 1, 1, {}, {}, false}), "commit 1");
}

TEST(ControllerDecisionTest, ARestartCanBeInterrupted) {
  Story story = announced(0);
  EXPECT_EQ(story(Judged{0, 0, Decision::kRestart}), "stop 0");
  EXPECT_EQ(story(Interrupted{}), "");
  EXPECT_EQ(story(GroupStopped{0}), "end interrupted");
}

TEST(ControllerDecisionTest, ACallbackThatFailsIsAFailureAfterTheCheckpoint) {
  Story story = announced(1);
  EXPECT_EQ(story(Judged{0, 0, {}, {}, "no network"}), "stop 0");
  EXPECT_EQ(story(GroupStopped{0}), "start 1 from 0 next 1");
}

}  // namespace
}  // namespace manta::train
