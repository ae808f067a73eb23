// Trials on several hosts: mostly of functions, as those of trainers are training runs.

#include <gmock/gmock.h>
#include <signal.h>

#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "manta/base/json.h"
#include "manta/data/s3_server_internal.h"
#include "on_hosts.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::ContainsRegex;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSubsetOf;
using testing::SizeIs;
using testing::StartsWith;

constexpr int kTrials = 6, kReports = 10;

class TrialsOnHosts : public OnHosts {
 protected:
  void SetUp() override {
    OnHosts::SetUp();
    std::filesystem::create_directories(temporary());
  }
  // The temporary folder of the driver and of all agents: hosts share a file system, except for the
  // results.
  std::string temporary() const { return folder_ / "temporary"; }
  std::string experiment() const { return storage() + "/experiment"; }

  std::vector<std::string> program(const std::string& name, int cpus, int pause,
                                   const std::string& kind = "function") const {
    std::vector<std::string> words = {test_program("tune_hosts"), storage(), name};
    for (int number : {cpus, kTrials, kReports, pause}) words.push_back(std::to_string(number));
    words.push_back(kind);
    return words;
  }
  std::unique_ptr<Running> start(const std::string& enter, int cpus, int pause,
                                 const std::string& more = "",
                                 const std::string& kind = "function") {
    std::string folder = "TMPDIR=" + temporary();
    return start_driver(program("experiment", cpus, pause, kind),
                        {{"MANTA_CLUSTER", cluster(enter, more, folder)}, {"TMPDIR", temporary()}});
  }

  static std::vector<std::string> results_of(const std::string& said) {
    std::vector<std::string> lines;
    std::istringstream in(said);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("result: ")) lines.push_back(line);
    }
    return lines;
  }
  // The result of the same experiment on one machine.
  std::vector<std::string> expected(const std::string& kind = "function") {
    Running alone(program("alone", 2, 0, kind), {}, folder_ / "alone.out");
    EXPECT_EQ(alone.exit_code(), 0) << alone.said();
    auto results = results_of(alone.said());
    EXPECT_THAT(results, SizeIs(kTrials)) << alone.said();
    return results;
  }

  // The hosts on which the reports in the journal were made. The journal has each report once.
  std::set<std::string> hosts_of_reports() const {
    std::set<std::string> names;
    std::map<int, int> next;
    std::istringstream in(text_of(experiment() + "/journal.jsonl"));
    for (std::string line; std::getline(in, line);) {
      Json json = Json::parse(line);
      if (json.at("event") != "result") continue;
      const Json& details = json.at("details");
      EXPECT_EQ(details.at("index"), next[details.at("trial")]++) << line;
      names.insert(details.at("metrics").at("node").get<std::string>());
    }
    for (const auto& [trial, count] : next) EXPECT_EQ(count, kReports) << trial;
    EXPECT_THAT(next, SizeIs(kTrials));
    return names;
  }
  void expect_good_end(Running& driver, const std::vector<std::string>& results) {
    EXPECT_EQ(driver.exit_code(), 0) << driver.said();
    EXPECT_THAT(driver.said(), HasSubstr(str("done ", kTrials, " 0")));
    EXPECT_EQ(results_of(driver.said()), results) << driver.said();
    EXPECT_FALSE(std::filesystem::exists(experiment() + "/.staging"));
    expect_no_processes();
  }
  void expect_no_files() const {
    EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(temporary()); }));
  }

  // A number in the output of the first trial's first attempt: its host, or its process.
  static int find(const std::string& said, const std::string& pattern) {
    std::smatch found;
    bool is_there = std::regex_search(said, found, std::regex("trial_00000 attempt 0 " + pattern));
    EXPECT_TRUE(is_there) << said;
    return is_there ? std::stoi(found[1]) : 0;
  }
  // The first trial has gone on from a checkpoint, and no further back than necessary.
  static void expect_going_on(const std::string& said, int from_report) {
    std::smatch found;
    std::regex begins("trial_00000 attempt [1-9] begins at report ([0-9]+) on n[0-9]");
    ASSERT_TRUE(std::regex_search(said, found, begins)) << said;
    EXPECT_GE(std::stoi(found[1]), from_report) << said;
  }

  // Once both trials of the lost host have ended, no more run than the other host has room for.
  void expect_none_without_room() const {
    std::set<int> running;
    int lost = 0;
    std::istringstream in(text_of(experiment() + "/journal.jsonl"));
    for (std::string line; std::getline(in, line);) {
      Json json = Json::parse(line);
      const Json& details = json.at("details");
      if (json.at("event") == "started") running.insert(details.at("trial").get<int>());
      if (json.at("event") == "ended") {
        running.erase(details.at("trial").get<int>());
        if (details.at("retry")) ++lost;
      }
      if (lost == 2) {
        EXPECT_LE(running.size(), 2u) << line;
      }
    }
    EXPECT_EQ(lost, 2);
  }

  // The host of the first trial is lost in the middle of the trial.
  void expect_to_go_on_elsewhere(const std::function<void(int host)>& lose,
                                 const std::string& more = "") {
    make_hosts(3);
    if (IsSkipped()) return;
    auto results = expected();
    auto driver = start(enter_without_folder(), 0, 200, ";replace=no" + more);
    ASSERT_TRUE(driver->says("trial_00000 attempt 0 has made report 2")) << driver->said();
    int host = find(driver->said(), "has made report 2 on n([12])");
    lose(host);
    EXPECT_TRUE(driver->says(str("node n", host, " is lost"))) << driver->said();
    expect_good_end(*driver, results);
    expect_going_on(driver->said(), 3);
    EXPECT_THAT(driver->said(),
                ContainsRegex(str("trial_00000 attempt 1 begins .* on n", 3 - host)));
    EXPECT_THAT(hosts_of_reports(), ElementsAre("n1", "n2"));
    expect_none_without_room();
  }
};

TEST_F(TrialsOnHosts, AsOnOneMachineWithACommonFolder) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto results = expected();
  auto driver = start(hosts_->enter(), 2, 100);
  expect_good_end(*driver, results);
  EXPECT_THAT(hosts_of_reports(), ElementsAre("n0", "n1", "n2"));
  expect_no_files();
}

TEST_F(TrialsOnHosts, AsOnOneMachineWhereNothingIsShared) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto results = expected();
  auto driver = start(enter_without_folder(), 2, 200);
  ASSERT_TRUE(driver->says("has made report 1 on n1")) << driver->said();
  // Trials listen on no address, and the driver only on the address that the others know.
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(hosts_->listeners(host), Each(StartsWith(NetworkHosts::address(host) + ":")));
    for (pid_t pid : processes_named(host, "worker"))
      EXPECT_THAT(hosts_->listeners(host, pid), SizeIs(0));
  }
  expect_good_end(*driver, results);
  EXPECT_THAT(hosts_of_reports(), ElementsAre("n0", "n1", "n2"));
  expect_no_files();
}

TEST_F(TrialsOnHosts, OfATrainerAsOnOneMachine) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto results = expected("trainer");
  auto driver = start(enter_without_folder(), 2, 200, "", "trainer");
  expect_good_end(*driver, results);
  EXPECT_THAT(hosts_of_reports(), ElementsAre("n0", "n1", "n2"));
  expect_no_files();
}

TEST_F(TrialsOnHosts, AKilledProcessGoesOnFromItsCheckpoint) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto results = expected();
  auto driver = start(enter_without_folder(), 0, 200);
  ASSERT_TRUE(driver->says("trial_00000 attempt 0 has made report 2")) << driver->said();
  ::kill(find(driver->said(), "begins at report 0 on n[12] .pid ([0-9]+)"), SIGKILL);
  expect_good_end(*driver, results);
  expect_going_on(driver->said(), 3);
  hosts_of_reports();
  expect_no_files();
}

TEST_F(TrialsOnHosts, AHostThatCrashesIsDoneWithout) {
  expect_to_go_on_elsewhere([&](int host) { hosts_->crash(host); });
}

TEST_F(TrialsOnHosts, AHostWhoseAgentIsKilledIsDoneWithout) {
  expect_to_go_on_elsewhere([&](int host) {
    auto agents = processes_named(host, "tune_hosts");
    ASSERT_THAT(agents, SizeIs(1));
    ::kill(agents.front(), SIGKILL);
  });
  expect_no_files();
}

// Its trials may go on for a while, but their reports go nowhere.
TEST_F(TrialsOnHosts, AHostThatIsCutOffIsDoneWithout) {
  expect_to_go_on_elsewhere([&](int host) { hosts_->cut(host); }, ";dead_after=2;fence_after=5");
  expect_no_files();
}

TEST_F(TrialsOnHosts, AKilledDriverLeavesNothingOnHostsAndTheNextGoesOn) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto results = expected();
  auto driver = start(enter_without_folder(), 0, 200);
  ASSERT_TRUE(driver->says("trial_00000 attempt 0 has made report 2")) << driver->said();
  ::kill(driver->pid(), SIGKILL);
  expect_no_processes();
  expect_no_files();
  driver = start(enter_without_folder(), 2, 100);
  expect_good_end(*driver, results);
  expect_going_on(driver->said(), 3);
  EXPECT_THAT(hosts_of_reports(), IsSubsetOf({"n0", "n1", "n2"}));
  expect_no_files();
}

// Checkpoints come from hosts that do not see the driver's folder, and go to a store. The next
// driver, on a machine that has nothing of the experiment, gets them from there and sends them on.
TEST_F(TrialsOnHosts, OfAnExperimentInAStoreGoOnWithAnotherDriver) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto results = expected();
  data::S3Server server({hosts_->enter(), "n0"});
  auto start_at = [&](const std::string& home, int pause) {
    std::filesystem::create_directories(home);
    auto words = program("experiment", 0, pause);
    words[1] = server.address("runs");
    std::string others = cluster(enter_without_folder(home), "", "TMPDIR=" + temporary());
    return start_driver(words,
                        {{"MANTA_CLUSTER", others}, {"HOME", home}, {"TMPDIR", temporary()}});
  };
  // Two checkpoints of a trial are kept, so any of these; long before its end.
  auto is_stored = [&](int n) {
    return server.has(str("runs/experiment/trial_00000/checkpoint_00000", n, "/manifest.json"));
  };
  auto first = start_at(folder_ / "home", 800);
  EXPECT_TRUE(eventually([&] {
    for (int n = 2; n < 10; ++n) {
      if (is_stored(n)) return true;
    }
    return false;
  })) << first->said();
  ::kill(first->pid(), SIGKILL);
  first->exit_code();
  for (int host : {1, 2})
    EXPECT_TRUE(eventually([&] { return hosts_->processes(host).empty(); })) << "n" << host;
  auto second = start_at(folder_ / "other_home", 50);
  EXPECT_EQ(second->exit_code(), 0) << second->said();
  EXPECT_EQ(results_of(second->said()), results) << second->said();
  expect_going_on(second->said(), 3);
  EXPECT_THAT(second->said(), ContainsRegex("begins at report [0-9]+ on n1 "));
  EXPECT_THAT(second->said(), ContainsRegex("begins at report [0-9]+ on n2 "));
}

// More trials are started than there is room for, so that nodes come.
TEST_F(TrialsOnHosts, WaitForHostsThatJoinLater) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto results = expected();
  std::string file = folder_ / "run.join";
  std::string join = str("join:0;max_nodes=2;cpus=2;file=", file);
  auto driver = start_driver(
      program("experiment", 0, 200),
      {{"MANTA_CLUSTER", join + ";address=" + NetworkHosts::address(0)}, {"TMPDIR", temporary()}});
  ASSERT_TRUE(eventually([&] { return !text_of(file).empty(); })) << driver->said();
  std::vector<std::unique_ptr<Running>> agents;
  for (std::string host : {"n1", "n2"}) {
    agents.push_back(std::make_unique<Running>(
        std::vector<std::string>{enter_without_folder(), host, test_program("tune_hosts")},
        std::map<std::string, std::string>{{"MANTA_NODE", "file:" + file},
                                           {"MANTA_NODE_RESOURCES", "cpus=2"},
                                           {"TMPDIR", temporary()}},
        folder_ / (host + ".out")));
  }
  expect_good_end(*driver, results);
  for (auto& agent : agents) EXPECT_EQ(agent->exit_code(), 0) << agent->said();
  EXPECT_THAT(hosts_of_reports(), ElementsAre("n1", "n2"));
  expect_no_files();
}

}  // namespace
}  // namespace manta
