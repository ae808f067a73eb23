// Experiments whose driver is killed: what goes on, and that nothing is lost or done twice.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "manta/base/json.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/s3_server_internal.h"
#include "manta/train/checkpoint.h"
#include "manta/train/file_internal.h"
#include "manta/train/remote_run_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::StartsWith;

std::vector<Json> journal_of(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_discarded()) lines.push_back(std::move(json));
  }
  return lines;
}

// How often each trial has ended.
std::map<int, int> completions(const std::string& journal) {
  std::map<int, int> counts;
  for (const Json& line : journal_of(journal)) {
    if (line.at("event") == "ended" && !line.at("details").at("retry"))
      ++counts[line.at("details").at("trial")];
  }
  return counts;
}

class Tuning : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Program> start() {
    return std::make_unique<Program>(
        test_program("tune_job"),
        std::vector<std::string>{storage_.path(), GetParam(), storage_ / "log"}, temporary_.path());
  }
  std::string journal() const { return storage_ / "e/journal.jsonl"; }

  TemporaryFolder storage_, temporary_;
};

TEST_P(Tuning, IsKilledTwentyTimesAndLosesNothing) {
  std::mt19937 random(11);
  int kills = 0;
  std::string last;
  while (last.empty()) {
    auto program = start();
    if (kills < 20) {
      // At a random line of the journal: it has some hundred in all.
      size_t lines = journal_of(journal()).size() + random() % 8;
      eventually(
          [&] { return journal_of(journal()).size() > lines || !is_running(program->pid()); });
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      program->send(SIGKILL);
      ++kills;
    }
    last = program->read_line();
    program->wait();
    // Trials that were complete when the driver died stay so, and are not completed again.
    for (const auto& [trial, count] : completions(journal())) ASSERT_EQ(count, 1) << trial;
  }
  EXPECT_EQ(last, "done 12 0");
  EXPECT_EQ(completions(journal()).size(), 12u);

  // According to the trials' own log: after a trial had ended, it did nothing more; and no report
  // is missing.
  std::map<std::string, std::set<int>> reports;
  std::ifstream log(storage_ / "log");
  for (std::string word, trial, n; log >> word >> trial >> n;) reports[trial].insert(std::stoi(n));
  EXPECT_EQ(reports.size(), 12u);
  std::map<int, int> results;
  std::set<int> ended;
  for (const Json& line : journal_of(journal())) {
    const Json& details = line.at("details");
    if (line.at("event") == "result") {
      EXPECT_EQ(details.at("index"), results[details.at("trial")]++) << "each report once";
      EXPECT_FALSE(ended.contains(details.at("trial")));
    }
    if (line.at("event") == "started") {
      EXPECT_FALSE(ended.contains(details.at("trial"))) << "it had ended";
    }
    if (line.at("event") == "ended" && !details.at("retry"))
      ended.insert(details.at("trial").get<int>());
  }
  for (const auto& [trial, count] : results) {
    char name[32];
    std::snprintf(name, sizeof name, "trial_%05d", trial);
    EXPECT_GE(reports[name].size(), static_cast<size_t>(count));
    for (int n = 0; n < count; ++n) EXPECT_TRUE(reports[name].contains(n)) << name << " " << n;
  }
  EXPECT_TRUE(eventually([&] { return temporary_.entries().empty(); }));
}

TEST_P(Tuning, CtrlCLeavesWhatIsRestored) {
  auto program = start();
  ASSERT_TRUE(eventually([&] { return journal_of(journal()).size() > 10; }));
  program->send_group(SIGINT);
  std::string line = program->read_line();
  int status = program->wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_THAT(line, testing::AnyOf(StartsWith("failed cancelled: the experiment was interrupted; "
                                              "Tuner::restore(\"" +
                                              storage_.path() + "/e\""),
                                   StartsWith("done")));
  auto again = start();
  EXPECT_EQ(again->read_line(), "done 12 0");
  again->wait();
  for (const auto& [trial, count] : completions(journal())) EXPECT_EQ(count, 1) << trial;
  EXPECT_EQ(completions(journal()).size(), 12u);
}

INSTANTIATE_TEST_SUITE_P(Of, Tuning, testing::Values("function", "trainer"),
                         [](const auto& info) { return std::string(info.param); });

/// The same at an address; each driver is on a machine without files of earlier drivers.
class RemoteTuning : public testing::TestWithParam<const char*> {
 protected:
  RemoteTuning() : old_home_(std::getenv("HOME") ? std::getenv("HOME") : "") {}
  ~RemoteTuning() override { ::setenv("HOME", old_home_.c_str(), 1); }

  std::unique_ptr<Program> start(const TemporaryFolder& home) {
    ::setenv("HOME", home.path().c_str(), 1);
    return std::make_unique<Program>(
        test_program("tune_job"),
        std::vector<std::string>{server_.address("runs"), GetParam(), temporary_ / "log"},
        programs_.path());
  }
  RemoteAddress place(const std::string& name = "") const {
    return *remote_address(server_.address("runs/e" + (name.empty() ? "" : "/" + name)));
  }
  int requests() const {
    std::string counts = server_.tell("/-/counts");
    return std::stoi(counts.substr(counts.find("requests=") + 9));
  }
  // The journal as a driver that restores the experiment would find it.
  std::vector<Json> stored_journal() const {
    if (!train::RemoteRun::exists(place(), train::kFolderOfFunctions)) return {};
    TemporaryFolder folder;
    train::RemoteRun::download_journal(place(), folder.path());
    return journal_of(folder / "journal.jsonl");
  }
  // For functions, each checkpoint in the journal is stored; for trainers, every file of a run that
  // has ended.
  void expect_true(const std::vector<Json>& journal) const {
    std::map<int, std::set<int64_t>> told;
    std::set<int> ended;
    for (const Json& line : journal) {
      const Json& details = line.at("details");
      if (line.at("event") == "result" && details.at("checkpoint"))
        told[details.at("trial")].insert(details.at("index").get<int64_t>());
      if (line.at("event") == "ended") ended.insert(details.at("trial").get<int>());
    }
    for (const auto& [trial, indexes] : told) {
      if (std::string(GetParam()) == "trainer" && !ended.contains(trial)) continue;
      char name[32];
      std::snprintf(name, sizeof name, "trial_%05d", trial);
      auto stored = train::RemoteRun::checkpoints(place(name));
      for (int64_t index : indexes) {
        ASSERT_TRUE(stored.contains(index)) << name << " " << index;
        std::string n = train::read_text(stored.at(index).file("n"));
        EXPECT_EQ(n, std::to_string(index)) << name;
      }
    }
  }

  data::S3Server server_;
  TemporaryFolder temporary_, programs_;
  const std::string old_home_;
};

TEST_P(RemoteTuning, IsKilledAtAnyMomentAndGoesOnElsewhere) {
  std::mt19937 random(7);
  std::string last;
  std::set<int> ended;
  int killed = 0;
  for (int kills = 0; last.empty(); ++kills) {
    TemporaryFolder home;
    int seen = requests();
    auto program = start(home);
    if (kills < 8) {
      int wanted = seen + 5 + static_cast<int>(random() % 150);
      eventually([&] { return requests() >= wanted || !is_running(program->pid()); });
      program->send(SIGKILL);
    }
    last = program->read_line();
    if (WIFSIGNALED(program->wait())) ++killed;
    // The store's journal only grows, and is true.
    auto journal = stored_journal();
    std::map<int, int> counts;
    for (const Json& line : journal)
      if (line.at("event") == "ended") ++counts[line.at("details").at("trial")];
    for (int trial : ended) ASSERT_TRUE(counts.contains(trial)) << trial << " is forgotten";
    for (const auto& [trial, count] : counts) {
      ASSERT_EQ(count, 1) << trial;
      ended.insert(trial);
    }
    expect_true(journal);
  }
  EXPECT_EQ(last, "done 12 0");
  EXPECT_EQ(ended.size(), 12u);
  EXPECT_GE(killed, 2) << "most had ended before they were killed";
  std::map<int, int> results;
  for (const Json& line : stored_journal()) {
    if (line.at("event") != "result") continue;
    const Json& details = line.at("details");
    EXPECT_EQ(details.at("index"), results[details.at("trial")]++) << "each report once";
  }
  EXPECT_TRUE(eventually([&] { return programs_.entries().empty(); }));
}

INSTANTIATE_TEST_SUITE_P(Of, RemoteTuning, testing::Values("function", "trainer"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace manta
