#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/manifest_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

JournalEvent started(double time, int attempt, int64_t next_report) {
  Json from = next_report > 0 ? Json(next_report - 1) : Json();
  return {time, attempt, kAttemptStarted, {{"checkpoint", from}, {"next_report", next_report}}};
}
JournalEvent report_event(double time, int attempt, int64_t index, bool checkpoint = false) {
  return {time,
          attempt,
          kReport,
          {{"index", index},
           {"metrics", {{"loss", time}}},
           {"checkpoint", checkpoint ? Json(checkpoint_name(index)) : Json()}}};
}

TEST(JournalTest, KeepsEvents) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  {
    Journal journal(path);
    journal.append(started(1.25, 0, 0));
  }
  Journal(path).append({2, 1, "note", {{"text", "line\nbreak \xff"}, {"nan", std::nan("")}}});
  auto events = read_journal(path);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].time, 1.25);
  EXPECT_EQ(events[0].event, kAttemptStarted);
  EXPECT_EQ(events[1].attempt, 1);
  EXPECT_EQ(events[1].details["text"], "line\nbreak \xef\xbf\xbd");
  EXPECT_TRUE(events[1].details["nan"].is_null());
}

TEST(JournalTest, ATornLastLineNeverHappened) {
  for (const std::string& torn :
       std::vector<std::string>{"{\"time\": 1, \"att", "{", "{}\n", std::string(3, '\0')}) {
    TemporaryFolder folder;
    std::string path = folder / "journal.jsonl";
    Journal(path).append(started(1, 0, 0));
    std::string whole = read_text(path);
    std::ofstream(path, std::ios::app) << torn;
    EXPECT_EQ(read_journal(path).size(), 1u) << torn;
    EXPECT_EQ(read_text(path), whole + torn);  // a reader changes nothing
    Journal(path).append(report_event(2, 0, 0));
    EXPECT_EQ(read_journal(path).size(), 2u) << torn;
  }
}

// Every prefix of a journal is a journal of the events before.
TEST(JournalTest, CutAnywhere) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  {
    Journal journal(path);
    for (int i = 0; i < 3; ++i) journal.append(report_event(i, 0, i));
  }
  std::string whole = read_text(path);
  for (size_t size = 0; size <= whole.size(); ++size) {
    replace_file(path, whole.substr(0, size));
    auto lines = std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size), '\n');
    ASSERT_EQ(read_journal(path).size(), static_cast<size_t>(lines)) << size;
  }
}

TEST(JournalTest, DamageInTheMiddleNamesTheLine) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  Journal(path).append(started(1, 0, 0));
  std::string line = read_text(path);
  replace_file(path, line + "garbage\n" + line);
  for (bool write : {true, false}) {
    try {
      write ? Journal(path), void() : static_cast<void>(read_journal(path));
      FAIL() << "damage was not found";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("line 2"), HasSubstr(path), HasSubstr("garbage")));
    }
  }
  try {
    read_journal(folder / "nowhere");
    FAIL() << "there is no such file";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  }
}

TEST(JournalTest, EventsAreCheckedFieldByField) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  struct {
    std::string line, message;
  } cases[] = {
      {std::string(1'000'000, '['), "more than 100 arrays and objects inside each other"},
      {R"({"time":1,"attempt":0,"event":"x"})", "details is missing"},
      {R"({"time":"1","attempt":0,"event":"x","details":{}})", "time is \"1\""},
      {R"({"time":1,"attempt":-1,"event":"x","details":{}})", "attempt is -1"},
      {R"({"time":1,"attempt":1e300,"event":"x","details":{}})", "attempt is 1e+300"},
      {R"({"time":1,"attempt":0,"event":7,"details":{}})", "event is 7"},
      {R"({"time":1,"attempt":0,"event":"attempt_started","details":{"next_report":-1}})",
       "details.next_report is -1"},
      {R"({"time":1,"attempt":0,"event":"report","details":{"index":"0"}})",
       "details.index is \"0\""},
      {R"({"time":1,"attempt":0,"event":"report","details":{"index":0,"metrics":[]}})",
       "details.metrics is []"},
      {R"({"time":1,"attempt":0,"event":"report","details":{"index":0,"metrics":{},)"
       R"("checkpoint":"../../x"}})",
       "details.checkpoint is \"../../x\"; expected null or \"checkpoint_000000\""},
      {R"({"time":1,"attempt":0,"event":"run_ended","details":{"outcome":3}})",
       "details.outcome is 3"},
      {R"({"time":1,"attempt":0,"event":"attempt_failed","details":{"message":3}})",
       "details.message is 3"},
      {R"({"time":1,"attempt":0,"event":"attempt_failed","details":{"restart":"no"}})",
       "details.restart is \"no\""},
  };
  for (const auto& one : cases) {
    fs::remove(path);
    Journal(path).append(started(1, 0, 0));
    std::string good = read_text(path);
    replace_file(path, good + one.line + "\n" + good);
    Error error = error_of([&] { read_journal(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("line 2 of '" + path), HasSubstr(one.message)));
  }
  // A line without a line end.
  replace_file(path, std::string(kLongestEvent + 2, ' '));
  EXPECT_THAT(message_of([&] { read_journal(path); }), HasSubstr("line 1 of '"));
}

TEST(JournalTest, LinesLongerThanAPieceOfTheFile) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  Journal journal(path);
  for (size_t size : {10u, 1'000'000u, 262'143u, 262'144u, 500u})
    journal.append({1, 0, "note", {{"text", std::string(size, 'x')}}});
  std::vector<size_t> sizes;
  for (const JournalEvent& event : read_journal(path))
    sizes.push_back(event.details["text"].get<std::string>().size());
  EXPECT_THAT(sizes, ElementsAre(10u, 1'000'000u, 262'143u, 262'144u, 500u));
}

TEST(JournalTest, AFullDiskLeavesTheEventsBefore) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  Journal journal(path);
  journal.append(started(1, 0, 0));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit limited = before;
  limited.rlim_cur = 10'000;
  ::setrlimit(RLIMIT_FSIZE, &limited);
  JournalEvent large{2, 0, "note", {{"text", std::string(20'000, 'x')}}};
  ErrorKind kind = ErrorKind::kCancelled;
  std::string message;
  try {
    journal.append(large);
  } catch (const Error& error) {
    kind = error.kind();
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(kind, ErrorKind::kIo);
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_EQ(read_journal(path).size(), 1u);
  journal.append(large);
  EXPECT_EQ(read_journal(path).size(), 2u);
}

// The last bytes are reserved for the events that end a run.
TEST(JournalTest, NoReportIsAppendedToAFullOne) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  Journal journal(path);
  fs::resize_file(path, kLargestJournal - 1'000'000);  // takes no place on the disk
  Error error = error_of([&] { journal.append(report_event(1, 0, 0)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("report less often")));
  EXPECT_EQ(fs::file_size(path), kLargestJournal - 1'000'000);
  journal.append({1, 0, kRunEnded, {{"outcome", "failed"}}});
  error = error_of([&] { journal.append({1, 0, "x", {{"x", std::string(1'000'000, 'x')}}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
}

TEST(JournalTest, AllValuesTogetherAreLimited) {
  TemporaryFolder folder;
  std::string path = folder / "journal.jsonl";
  {
    Journal journal(path);
    for (int i = 0; i < 10; ++i) journal.append({1, 0, "note", {{"list", {1, 2, 3}}}});
  }
  EXPECT_EQ(read_journal(path, 50).size(), 10u);
  Error error = error_of([&] { read_journal(path, 49); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("more than 49 values up to line 10")));
}

TEST(HistoryTest, EachReportOnceFromTheAttemptThatLasted) {
  History none = history({});
  EXPECT_THAT(none.reports(), IsEmpty());
  EXPECT_EQ(none.last_attempt(), -1);

  History result = history({started(100, 0, 0),
                            report_event(101, 0, 0),
                            report_event(103, 0, 1, true),
                            report_event(106, 0, 2),
                            report_event(107, 0, 3),
                            {108, 0, kAttemptFailed, {{"message", "boom"}}},
                            started(200, 1, 2),
                            report_event(202, 1, 2, true),
                            {203, 1, kAttemptFailed, {{"message", "boom"}}},
                            started(300, 2, 3),
                            report_event(301, 2, 3, true),
                            report_event(304, 2, 4),
                            {305, 2, kRunEnded, {{"outcome", "finished"}}}});
  std::vector<std::string> reports;
  for (const ReportRecord& one : result.reports())
    reports.push_back(str(one.index, " of attempt ", one.attempt, " at ", one.metrics["loss"],
                          " after ", one.time_total_s));
  EXPECT_THAT(reports,
              ElementsAre("0 of attempt 0 at 101.0 after 1", "1 of attempt 0 at 103.0 after 3",
                          "2 of attempt 1 at 202.0 after 5", "3 of attempt 2 at 301.0 after 6",
                          "4 of attempt 2 at 304.0 after 9"));
  EXPECT_THAT(result.checkpoints(), ElementsAre(1, 2, 3));
  EXPECT_EQ(result.last_attempt(), 2);
  EXPECT_EQ(result.failures(), 2);
  EXPECT_EQ(result.outcome(), "finished");
}

JournalEvent group_started(double time, int attempt) {
  return {time, attempt, kGroupStarted, {{"workers", 1}}};
}

// Time counts only while there are workers: not while they wait for resources, not between
// attempts, and not after the death of a driver.
TEST(HistoryTest, TimeIsThatWithWorkers) {
  std::vector<JournalEvent> events = {started(0, 0, 0),
                                      group_started(3600, 0),
                                      report_event(3610, 0, 0, true),
                                      report_event(3614, 0, 1),
                                      {3615, 0, kAttemptFailed, {{"message", "boom"}}},
                                      started(3616, 1, 1),
                                      group_started(9000, 1),
                                      report_event(9003, 1, 1, true)};
  History first = history(events);
  EXPECT_EQ(first.reports()[0].time_total_s, 10);
  EXPECT_EQ(first.reports()[1].time_total_s, 13);
  EXPECT_EQ(first.seconds_with_workers(), 18);  // lost work counts
  events.push_back(started(50'000, 2, 2));      // by another driver
  EXPECT_EQ(history(events).seconds_with_workers(), 18);
  events.push_back(group_started(50'100, 2));
  events.push_back({50'101, 2, kDecided, {{"decision", "pause"}}});
  events.push_back({50'102, 2, kRunEnded, {{"outcome", "paused"}}});
  EXPECT_EQ(history(events).seconds_with_workers(), 20);
}

TEST(HistoryTest, TimesThatNoClockHasDoNotOverflow) {
  std::vector<JournalEvent> events;
  for (int attempt = 0; attempt < 10; ++attempt) {
    events.push_back(started(-kMostSeconds, attempt, attempt));
    events.push_back(group_started(-kMostSeconds, attempt));
    events.push_back(report_event(kMostSeconds, attempt, attempt, true));
    events.push_back(report_event(-kMostSeconds, attempt, attempt, true));  // back again
  }
  History result = history(events);
  EXPECT_EQ(result.seconds_with_workers(), kMostSeconds);
  for (const ReportRecord& report : result.reports()) EXPECT_LE(report.time_total_s, kMostSeconds);
}

TEST(HistoryTest, TheReasonOfAFailureIsThatOfTheLastAttempt) {
  auto failed = [](int attempt, bool restart) {
    return JournalEvent{1,
                        attempt,
                        kAttemptFailed,
                        {{"rank", attempt},
                         {"kind", kind_name(ErrorKind::kWorkerLost)},
                         {"message", "it was killed"},
                         {"restart", restart}}};
  };
  std::vector<JournalEvent> events = {started(0, 0, 0), failed(0, true)};
  EXPECT_FALSE(history(events).failure());
  events.push_back(started(0, 1, 0));
  events.push_back(failed(1, false));
  events.push_back({1, 1, kRunEnded, {{"outcome", "failed"}}});
  ASSERT_TRUE(history(events).failure());
  EXPECT_EQ(history(events).failure()->kind(), ErrorKind::kWorkerLost);
  EXPECT_STREQ(history(events).failure()->what(), "rank 1 failed: it was killed");
  events.push_back(started(2, 2, 0));  // restored
  EXPECT_FALSE(history(events).failure());
}

TEST(HistoryTest, ARestartFromTheBeginningDiscardsAll) {
  History result =
      history({started(0, 0, 0), report_event(1, 0, 0), report_event(2, 0, 1), started(5, 1, 0)});
  EXPECT_THAT(result.reports(), IsEmpty());
  EXPECT_THAT(result.checkpoints(), IsEmpty());
  EXPECT_EQ(result.outcome(), "");
}

TEST(HistoryTest, ADecisionToStopMakesARunComplete) {
  std::vector<JournalEvent> events = {
      {1, 0, kAttemptStarted, {{"checkpoint", Json()}, {"next_report", 0}}},
      {2, 0, kReport, {{"index", 0}, {"metrics", {{"a", 1}}}, {"checkpoint", Json()}}},
      {3, 0, kDecided, {{"report", 0}, {"decision", "stop"}}}};
  EXPECT_EQ(history(events).outcome(), "stopped");  // its driver died
  events.push_back({4, 0, kRunEnded, {{"outcome", "interrupted"}}});
  EXPECT_EQ(history(events).outcome(), "stopped");
  for (const char* other : {"pause", "restart"}) {
    events[2].details["decision"] = other;
    EXPECT_EQ(history(events).outcome(), "interrupted");
  }
}

}  // namespace
}  // namespace manta::train
