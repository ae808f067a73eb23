// The queue between a run and its trackers: sinks that are slow, fail, or hang.

#include "manta/train/tracker.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"

namespace manta::train {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The state that the sinks of a test share; it outlives the runs.
struct Told {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::function<void()> before;  // called before each take

  void add(std::string line) {
    std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
  }
  std::vector<std::string> all() {
    std::lock_guard lock(mutex);
    return lines;
  }
};

class ToldSink final : public TrackerSink {
 public:
  explicit ToldSink(std::shared_ptr<Told> told) : told_(std::move(told)) {}
  void take(const std::vector<TrackerEvent>& events) override {
    if (told_->before) told_->before();
    for (const TrackerEvent& event : events) {
      if (auto* report = std::get_if<ReportRecord>(&event.what)) {
        told_->add(str("report ", report->index));
      } else if (auto* start = std::get_if<TrackerEvent::RunStart>(&event.what)) {
        told_->add("start " + start->name);
      } else if (std::holds_alternative<TrackerEvent::RunEnd>(event.what)) {
        told_->add("end");
      }
    }
  }

 private:
  std::shared_ptr<Told> told_;
};

class ToldTracker final : public Tracker {
 public:
  ToldTracker(std::shared_ptr<Told> told, TrackerOptions options = {})
      : Tracker("ToldTracker", options), told_(std::move(told)) {}

 protected:
  std::unique_ptr<TrackerSink> make_sink(const RunInfo&) override {
    return std::make_unique<ToldSink>(told_);
  }

 private:
  std::shared_ptr<Told> told_;
};

// A run that exists only for callbacks.
struct SeenRun {
  Json config;
  ScalingConfig scaling;
  std::vector<ReportRecord> reports;
  std::string name = "a";

  RunInfo info() const { return {name, "/runs/" + name, config, scaling, reports}; }
  void report(Callback& callback) {
    reports.push_back({static_cast<int64_t>(reports.size()), 0, 0, 0, {{"n", 1}}, ""});
    callback.on_report(info(), reports.back());
  }
};

TEST(TrackerTest, TellsEverythingInOrderAndAtTheEndWaitsForIt) {
  auto told = std::make_shared<Told>();
  ToldTracker tracker(told);
  SeenRun a, b;
  b.name = "b";
  tracker.on_run_start(a.info());
  tracker.on_run_start(b.info());
  for (int i = 0; i < 2500; ++i) a.report(tracker);
  tracker.on_run_end(a.info(), RunOutcome::kFinished);
  auto lines = told->all();
  std::erase(lines, "start b");
  ASSERT_EQ(lines.size(), 2502u);
  EXPECT_EQ(lines.front(), "start a");
  EXPECT_EQ(lines[1], "report 0");
  EXPECT_EQ(lines[2500], "report 2499");
  EXPECT_EQ(lines.back(), "end");
  EXPECT_EQ(tracker.lost(), 0u);
}

// A thread that took each report by itself would take a processor from the loops each time. The
// test leaves enough time for that after each report.
TEST(TrackerTest, ReportsThatFollowEachOtherAreTakenSomeAtATime) {
  constexpr int kReports = 200;
  auto told = std::make_shared<Told>();
  std::atomic<int> takes{0};
  told->before = [&] { ++takes; };
  ToldTracker tracker(told);
  SeenRun run;
  tracker.on_run_start(run.info());
  ASSERT_TRUE(eventually([&] { return told->all().size() == 1; }));
  for (int i = 0; i < kReports; ++i) {
    run.report(tracker);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  tracker.on_run_end(run.info(), RunOutcome::kFinished);
  EXPECT_EQ(told->all().size(), kReports + 2u);
  EXPECT_LT(takes, kReports / 2);
}

// There must be room for events that come meanwhile.
TEST(TrackerTest, ASmallQueueIsTakenBeforeItIsFull) {
  auto told = std::make_shared<Told>();
  ToldTracker tracker(told, {.queue_size = 4});
  SeenRun run;
  tracker.on_run_start(run.info());
  ASSERT_TRUE(eventually([&] { return told->all().size() == 1; }));
  for (int i = 0; i < 8; ++i) {
    run.report(tracker);
    ASSERT_TRUE(eventually([&] { return told->all().size() == static_cast<size_t>(i) + 2; }));
  }
  tracker.on_run_end(run.info(), RunOutcome::kFinished);
  EXPECT_EQ(tracker.lost(), 0u);
}

TEST(TrackerTest, ASinkThatHangsHoldsNothingUpAndWhatItMissesIsCounted) {
  auto told = std::make_shared<Told>();
  std::atomic<bool> hangs{true}, is_in{false};
  told->before = [&] {
    is_in = true;
    eventually([&] { return !hangs; });
  };
  ToldTracker tracker(told, {.queue_size = 10, .patience_at_end = milliseconds(1)});
  SeenRun run;
  tracker.on_run_start(run.info());
  ASSERT_TRUE(eventually([&] { return is_in.load(); }));
  for (int i = 0; i < 100; ++i) run.report(tracker);  // returns, though no sink takes them
  EXPECT_EQ(tracker.lost(), 90u);
  testing::internal::CaptureStderr();
  tracker.on_run_end(run.info(), RunOutcome::kFinished);
  // The start, which the sink is taking, ten events that wait, the end, and those that found no
  // place.
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("ToldTracker of run 'a'"), HasSubstr("102 events")));
  EXPECT_EQ(tracker.lost(), 102u);
  hangs = false;
}

TEST(TrackerTest, ASinkThatFailsIsTriedAgainAfterOneWarning) {
  auto told = std::make_shared<Told>();
  std::atomic<int> tries{0};
  told->before = [&] {
    if (++tries <= 2) throw Error(ErrorKind::kIo, "nobody answers");
  };
  ToldTracker tracker(told, {.patience_at_end = std::chrono::seconds(50)});
  SeenRun run;
  testing::internal::CaptureStderr();
  tracker.on_run_start(run.info());
  run.report(tracker);
  tracker.on_run_end(run.info(), RunOutcome::kFinished);
  std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning, AllOf(HasSubstr("ToldTracker of run 'a': nobody answers"),
                             HasSubstr("the run goes on")));
  EXPECT_EQ(warning.find("nobody answers"), warning.rfind("nobody answers"));
  EXPECT_THAT(told->all(), ElementsAre("start a", "report 0", "end"));
  EXPECT_EQ(tracker.lost(), 0u);
}

TEST(TrackerTest, WhatASinkCannotTakeAtAllIsLost) {
  auto told = std::make_shared<Told>();
  told->before = [] { throw std::runtime_error("no such thing"); };
  ToldTracker tracker(told);
  SeenRun run;
  testing::internal::CaptureStderr();
  tracker.on_run_start(run.info());
  run.report(tracker);
  tracker.on_run_end(run.info(), RunOutcome::kFailed);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("no such thing"), HasSubstr("3 events of the run did not arrive")));
  EXPECT_EQ(tracker.lost(), 3u);
  EXPECT_THAT(told->all(), IsEmpty());
}

TEST(TrackerTest, ATrackerThatGoesAwayEndsItsThreads) {
  auto told = std::make_shared<Told>();
  told->before = [] { throw Error(ErrorKind::kTimeout, "too slow"); };
  SeenRun run;
  testing::internal::CaptureStderr();
  {
    ToldTracker tracker(told);
    tracker.on_run_start(run.info());
  }
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(told.use_count(), 1);  // the sink is gone
}

TEST(TrackerTest, OptionsThatMakeNoSenseAreRefused) {
  auto told = std::make_shared<Told>();
  EXPECT_THAT(message_of([&] { ToldTracker tracker(told, {.queue_size = 0}); }),
              HasSubstr("queue_size"));
  EXPECT_THAT(message_of([&] { ToldTracker tracker(told, {.patience_at_end = milliseconds(-1)}); }),
              HasSubstr("patience_at_end"));
}

}  // namespace
}  // namespace manta::train
