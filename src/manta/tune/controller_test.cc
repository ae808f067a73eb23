#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/tune/controller_internal.h"
#include "manta/tune/trial_json_internal.h"

namespace manta::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NoSearcher final : public Searcher {
 public:
  std::optional<Assignment> suggest(uint64_t) override { return std::nullopt; }
  void on_result(const TrialInfo& trial, const Json& result) override {
    told.push_back(str("result ", trial.number, " ", result.at("training_iteration")));
  }
  void on_complete(const TrialInfo& trial, const Json& last) override {
    told.push_back(str("complete ", trial.number, last.is_null() ? " without a result" : ""));
  }
  std::vector<std::string> told;
};

// Stops a trial whose metric "stop" is true.
class StopIfTold final : public Scheduler {
 public:
  Verdict on_result(const TrialInfo&, const Json& result) override {
    return result.value("stop", false) ? Verdict::kStop : Verdict::kGoOn;
  }
  void on_complete(const TrialInfo&, const Json&) override { ++completed; }
  int completed = 0;
};

// Actions in words.
struct Words {
  std::string operator()(const Suggest& it) const { return str("suggest ", it.number); }
  std::string operator()(const StartTrial& it) const {
    return str("start ", it.trial, "/", it.attempt);
  }
  std::string operator()(const Judge& it) const {
    return str(it.verdict == Verdict::kStop ? "stop " : "go on ", it.trial, " after ", it.index);
  }
  std::string operator()(const InterruptTrial& it) const { return str("interrupt ", it.trial); }
  std::string operator()(const Note& it) const { return "note " + it.event; }
  std::string operator()(const End& it) const { return it.interrupted ? "end early" : "end"; }
};

class ControllerTest : public testing::Test {
 protected:
  std::vector<std::string> words(const std::vector<Action>& actions) {
    std::vector<std::string> all;
    for (const Action& action : actions) {
      if (auto* note = std::get_if<Note>(&action)) journal.push_back(*note);
      all.push_back(std::visit(Words(), action));
    }
    return all;
  }
  std::vector<std::string> handle(const Event& event) { return words(controller->handle(event)); }
  std::vector<std::string> suggest(uint64_t number, double cpus = 1) {
    return handle(Suggested{number, Suggestion{{}, {{"n", number}}, {Resources{.cpus = cpus}}}});
  }
  std::vector<std::string> begin(Controller::Options options) {
    controller.emplace(options, searcher, scheduler);
    for (const Note& note : std::exchange(journal, {})) {
      check_event("a line", note.event, note.details);
      controller->replay(note.attempt, note.event, note.details);
      journal.push_back(note);
    }
    return words(controller->begin());
  }
  static Controller::Options cpus(double cpus, int max_failures = 0) {
    Controller::Options options;
    options.room.total.cpus = cpus;
    options.max_failures = max_failures;
    return options;
  }
  static TrialEnded failed(uint64_t trial, int attempt, ErrorKind kind = ErrorKind::kUserCode) {
    return {trial, attempt, RunOutcome::kFailed, kind, "it broke"};
  }

  NoSearcher searcher;
  StopIfTold scheduler;
  std::optional<Controller> controller;
  std::vector<Note> journal;
};

TEST_F(ControllerTest, NotesBeforeItActs) {
  EXPECT_THAT(begin(cpus(2)), ElementsAre("suggest 0"));
  EXPECT_THAT(suggest(0), ElementsAre("note trial", "note started", "start 0/0", "suggest 1"));
  EXPECT_THAT(suggest(1), ElementsAre("note trial", "note started", "start 1/0", "suggest 2"));
  EXPECT_THAT(suggest(2), ElementsAre("note trial")) << "there is no place";
  EXPECT_THAT(handle(Reported{0, 0, 0, {{"a", 1}}, 0.5, false}),
              ElementsAre("note result", "go on 0 after 0"));
  EXPECT_THAT(handle(TrialEnded{0, 0}),
              ElementsAre("note ended", "note started", "start 2/0", "suggest 3"));
  EXPECT_THAT(handle(Suggested{3, {}}), IsEmpty()) << "no more";
  EXPECT_THAT(handle(TrialEnded{1, 0}), ElementsAre("note ended"));
  EXPECT_THAT(handle(TrialEnded{2, 0}), ElementsAre("note ended", "note experiment_ended", "end"));
  EXPECT_TRUE(controller->ended());
  EXPECT_THAT(searcher.told, ElementsAre("result 0 1", "complete 0", "complete 1 without a result",
                                         "complete 2 without a result"));
  EXPECT_THAT(handle(TrialEnded{2, 0}), IsEmpty());
}

TEST_F(ControllerTest, OneTrialMayAlwaysRunAndOthersWaitInOrder) {
  begin(cpus(1.6));
  EXPECT_THAT(suggest(0, 2), ElementsAre("note trial", "note started", "start 0/0", "suggest 1"));
  EXPECT_THAT(suggest(1, 1), ElementsAre("note trial", "note started", "start 1/0", "suggest 2"))
      << "what a trial holds beyond the limit does not count against others";
  EXPECT_THAT(suggest(2, 1), ElementsAre("note trial"));
  EXPECT_THAT(handle(TrialEnded{0, 0}), ElementsAre("note ended"));
  EXPECT_THAT(handle(TrialEnded{1, 0}),
              ElementsAre("note ended", "note started", "start 2/0", "suggest 3"));
}

TEST_F(ControllerTest, ThoseThatRunGoOnWhenThereIsLessRoomAndNoOtherStarts) {
  begin(cpus(4, 5));
  for (uint64_t number = 0; number < 5; ++number) suggest(number);
  EXPECT_THAT(handle(TrialRoom{.total = {.cpus = 2}}), IsEmpty());
  EXPECT_THAT(handle(failed(0, 0)), ElementsAre("note ended")) << "three run";
  EXPECT_THAT(handle(failed(1, 0)), ElementsAre("note ended")) << "two run";
  EXPECT_THAT(handle(TrialEnded{2, 0}), ElementsAre("note ended", "note started", "start 0/1"));
  EXPECT_THAT(handle(TrialRoom{.total = {.cpus = 2}}), IsEmpty());
  EXPECT_THAT(handle(TrialRoom{.total = {.cpus = 3}}), ElementsAre("note started", "start 1/1"));
  EXPECT_THAT(handle(TrialRoom{.total = {.cpus = 9}, .max_concurrent = 3}), IsEmpty());
  EXPECT_THAT(handle(TrialRoom{.total = {.cpus = 9}, .max_concurrent = 4}),
              ElementsAre("note started", "start 4/0"));
}

// Smaller trials next to a large one do not take the room in which it runs.
TEST_F(ControllerTest, ALargeTrialThatDoesNotFitAnyMoreKeepsOthersBack) {
  begin(cpus(4));
  EXPECT_THAT(suggest(0, 3), ElementsAre("note trial", "note started", "start 0/0", "suggest 1"));
  EXPECT_THAT(suggest(1, 2), ElementsAre("note trial"));
  EXPECT_THAT(handle(TrialRoom{.total = {.cpus = 2}}), IsEmpty());
  EXPECT_THAT(handle(Reported{0, 0, 0, {{"a", 1}}, 0.5, false}),
              ElementsAre("note result", "go on 0 after 0"));
  EXPECT_THAT(handle(TrialEnded{0, 0}),
              ElementsAre("note ended", "note started", "start 1/0", "suggest 2"));
}

TEST_F(ControllerTest, AStoppedTrialIsStoppedHoweverItEnds) {
  for (const TrialEnded& end : {TrialEnded{0, 0}, failed(0, 0)}) {
    journal.clear();
    begin(cpus(1, 5));
    suggest(0);
    EXPECT_THAT(handle(Reported{0, 0, 0, {{"stop", true}}, 1, false}),
                ElementsAre("note result", "stop 0 after 0"));
    EXPECT_THAT(handle(end), ElementsAre("note ended"));
    EXPECT_EQ(controller->trials()[0].outcome, RunOutcome::kStopped);
    EXPECT_FALSE(controller->trials()[0].error);
  }
  EXPECT_EQ(scheduler.completed, 0);
}

TEST_F(ControllerTest, AFailureIsTriedAgainAsOftenAsAllowed) {
  begin(cpus(1, 1));
  suggest(0);
  EXPECT_THAT(handle(failed(0, 0)), ElementsAre("note ended", "note started", "start 0/1"));
  EXPECT_THAT(handle(failed(0, 0)), IsEmpty()) << "of the attempt before";
  EXPECT_THAT(handle(failed(0, 1)), ElementsAre("note ended"));
  EXPECT_STREQ(controller->trials()[0].error->what(), "it broke");
  suggest(1);
  EXPECT_THAT(handle(failed(1, 0, ErrorKind::kResources)), ElementsAre("note ended"))
      << "would fail again";
}

TEST_F(ControllerTest, InterruptsAllAndLeavesThemForTheNextTime) {
  begin(cpus(2));
  suggest(0);
  suggest(1);
  EXPECT_THAT(handle(Interrupted{}), ElementsAre("interrupt 0", "interrupt 1"));
  EXPECT_THAT(handle(Interrupted{}), IsEmpty());
  EXPECT_THAT(handle(Reported{1, 0, 0, {}, 1, false}),
              ElementsAre("note result", "go on 1 after 0"));
  EXPECT_THAT(handle(TrialEnded{0, 0, RunOutcome::kInterrupted}), IsEmpty());
  EXPECT_THAT(handle(TrialEnded{1, 0}),
              ElementsAre("note ended", "note experiment_interrupted", "end early"));
  EXPECT_THAT(begin(cpus(2)), ElementsAre("note started", "start 0/1", "suggest 2"));
}

TEST_F(ControllerTest, GoesOnFromItsJournalAndObeysIt) {
  begin(cpus(3, 5));
  for (uint64_t number = 0; number < 3; ++number) suggest(number);
  handle(Reported{0, 0, 0, {{"stop", true}}, 1, true});  // and the driver dies
  handle(Reported{1, 0, 0, {{"a", 1}}, 1, true});
  handle(failed(2, 0));
  EXPECT_THAT(begin(cpus(3, 5)), ElementsAre("note ended", "note started", "start 1/1",
                                             "note started", "start 2/2", "suggest 3"));
  EXPECT_EQ(controller->trials()[0].outcome, RunOutcome::kStopped);
  // It makes a report again that was decided before: nothing is noted.
  EXPECT_THAT(handle(Reported{1, 1, 0, {{"stop", true}}, 1, true}), ElementsAre("go on 1 after 0"));
  EXPECT_THAT(handle(Reported{1, 1, 1, {{"stop", true}}, 1, true}),
              ElementsAre("note result", "stop 1 after 1"));
  EXPECT_EQ(controller->trials()[2].failures, 1);
}

TEST_F(ControllerTest, RevivesWhatHadFailedIfAsked) {
  begin(cpus(1));
  suggest(0);
  handle(failed(0, 0));
  handle(Suggested{1, {}});
  ASSERT_TRUE(controller->ended());
  EXPECT_THAT(begin(cpus(1)), ElementsAre("suggest 1"));
  controller.emplace(cpus(1), searcher, scheduler);
  for (const Note& note : journal) controller->replay(note.attempt, note.event, note.details);
  controller->revive_failed();
  EXPECT_THAT(words(controller->begin()),
              ElementsAre("note revived", "note started", "start 0/1", "suggest 1"));
}

TEST_F(ControllerTest, ValuesThatJsonCannotHoldAreTheSameNowAndLater) {
  begin(cpus(1));
  suggest(0);
  handle(Reported{0, 0, 0, {{"a", std::nan("")}, {"b", {1, INFINITY}}}, 1, false});
  EXPECT_EQ(controller->trials()[0].reports[0].metrics,
            (Json{{"a", nullptr}, {"b", {1, nullptr}}}));
}

TEST_F(ControllerTest, AJournalThatMakesNoSenseIsDamage) {
  Json trial = {{"trial", 0},
                {"assignment", Json::object()},
                {"config", Json::object()},
                {"resources", Json::array()}};
  auto replay = [&](const char* event, const Json& details) {
    return error_of([&] {
      begin(cpus(1));
      check_event("line 7", event, details);
      controller->replay(0, event, details);
    });
  };
  auto with = [](Json json, const char* key, const Json& value) {
    json[key] = value;
    return json;
  };
  Json result = {{"trial", 0},        {"index", 0},         {"metrics", nullptr},
                 {"time_total_s", 1}, {"checkpoint", true}, {"decision", "go_on"}};
  Json end = {
      {"trial", 0}, {"outcome", "failed"}, {"retry", false}, {"kind", "io"}, {"message", ""}};
  for (const auto& [event, details] : std::vector<std::pair<const char*, Json>>{
           {"other", trial},
           {kTrial, with(trial, "trial", 1)},
           {kTrial, with(trial, "trial", -1)},
           {kTrial, with(trial, "assignment", 1)},
           {kTrial, with(trial, "resources", {{{"cpus", -1}}})},
           {kTrial, {{"trial", 0}}},
           {kStarted, {{"trial", 0}}},
           {kStarted, {{"trial", "a"}}},
           {kStarted, Json::array()},
           {kResult, with(result, "index", -1)},
           {kResult, with(result, "decision", "maybe")},
           {kResult, with(result, "metrics", 1)},
           {kResult, result},
           {kEnded, with(end, "outcome", "paused")},
           {kEnded, with(end, "kind", "other")},
           {kEnded, end}}) {
    EXPECT_EQ(replay(event, details).kind(), ErrorKind::kCorrupt) << event << " " << details;
  }
}

}  // namespace
}  // namespace manta::tune
