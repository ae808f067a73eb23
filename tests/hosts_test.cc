// Training on several hosts: network namespaces, with the driver on the first and agents on the
// others.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "manta/base/json.h"
#include "manta/core/ray_cluster_internal.h"
#include "manta/core/slurm_cluster_internal.h"
#include "manta/data/s3_server_internal.h"
#include "manta/train/checkpoint.h"
#include "on_hosts.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr int kRows = 4000;  // as rows in memory, more than fits in a message

void write_rows(const std::string& path) {
  std::mt19937 random(5);
  arrow::Int64Builder ids;
  std::vector<arrow::DoubleBuilder> numbers(4);
  for (int i = 0; i < kRows; ++i) {
    ASSERT_TRUE(ids.Append(i).ok());
    double sum = 0;
    for (size_t column = 0; column < 3; ++column) {
      double value = static_cast<double>(random()) / 4294967296.0 - 0.5;
      sum += value * static_cast<double>(column + 1);
      ASSERT_TRUE(numbers[column].Append(value).ok());
    }
    ASSERT_TRUE(numbers[3].Append(sum).ok());
  }
  arrow::ArrayVector columns = {ids.Finish().ValueOrDie()};
  arrow::FieldVector fields = {arrow::field("id", arrow::int64())};
  for (size_t i = 0; i < 4; ++i) {
    columns.push_back(numbers[i].Finish().ValueOrDie());
    fields.push_back(arrow::field(std::string(1, "abcy"[i]), arrow::float64()));
  }
  auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  ASSERT_TRUE(parquet::arrow::WriteTable(*arrow::Table::Make(arrow::schema(fields), columns),
                                         arrow::default_memory_pool(), out, 100)
                  .ok());
  ASSERT_TRUE(out->Close().ok());
}

class HostsTest : public OnHosts {
 protected:
  void SetUp() override {
    OnHosts::SetUp();
    write_rows(folder_ / "data.parquet");
  }

  std::string run_folder() const { return storage() + "/run"; }
  std::string log_of(const std::string& name) const {
    return text_of(run_folder() + "/logs/" + name + ".log");
  }

  std::unique_ptr<Running> start(int workers, const std::vector<std::string>& options,
                                 const std::string& enter, const std::string& more = "") {
    return start_driver(program(workers, options), {{"MANTA_CLUSTER", cluster(enter, more)}});
  }
  std::vector<std::string> program(int workers, const std::vector<std::string>& options) const {
    std::vector<std::string> words = {test_program("torch_hosts"), storage(), "run",
                                      folder_ / "data.parquet", std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }

  // The same training in one process on one machine.
  double expected(std::vector<std::string> options = {}) {
    std::vector<std::string> words = {test_program("torch_hosts"), storage(), "alone",
                                      folder_ / "data.parquet", "1"};
    words.insert(words.end(), options.begin(), options.end());
    Running alone(words, {}, folder_ / "alone.out");
    EXPECT_EQ(alone.exit_code(), 0) << alone.said();
    return result_of(alone.said());
  }
  static double result_of(const std::string& said) {
    std::smatch found;
    bool is_there = std::regex_search(said, found, std::regex("done ([0-9.]+) after"));
    EXPECT_TRUE(is_there) << said;
    return is_there ? std::stod(found[1]) : NAN;
  }

  // The reports that it made, in order, each once.
  static std::string reports_of(const std::string& said) {
    std::smatch found;
    bool is_there = std::regex_search(said, found, std::regex("reports of steps([ 0-9]+)"));
    EXPECT_TRUE(is_there) << said;
    return is_there ? found[1].str() : "";
  }

  // The attempt that committed the checkpoint of that report; -1 if there is none.
  int attempt_of(int index) const {
    std::string number = std::to_string(index);
    std::string manifest = run_folder() + "/checkpoint_" + std::string(6 - number.size(), '0') +
                           number + "/manifest.json";
    std::string text = text_of(manifest);
    return text.empty() ? -1 : Json::parse(text).at("attempt").get<int>();
  }
  // Every committed checkpoint has the content of its manifest and nothing else, and none is of an
  // earlier attempt than the one before it.
  void expect_sound_checkpoints() const {
    int found = 0, last_attempt = 0;
    std::set<std::string> folders;
    for (const auto& entry : std::filesystem::directory_iterator(run_folder())) {
      std::string name = entry.path().filename();
      if (name.starts_with("checkpoint_")) folders.insert(entry.path());
    }
    for (const std::string& folder : folders) {
      EXPECT_THAT(folder, Not(HasSubstr("partial")));
      Checkpoint checkpoint = Checkpoint::from_directory(folder);  // checks sizes and checksums
      std::set<std::string> listed{"manifest.json"}, there;
      for (const std::string& file : checkpoint.files()) listed.insert(file);
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) {
          there.insert(std::filesystem::relative(entry.path(), folder).string());
        }
      }
      EXPECT_EQ(there, listed) << folder;
      int attempt = checkpoint.manifest().at("attempt");
      EXPECT_GE(attempt, last_attempt) << folder;
      last_attempt = attempt;
      ++found;
    }
    EXPECT_GT(found, 0);
  }

  // Processes and hosts die one after the other, also while the group is being restarted. Hosts are
  // cut off: for messages from the driver, for messages to the driver, or for both. `make
  // test-faults` has more of them.
  void train_through_faults(const std::string& enter) {
    const char* wanted = std::getenv("MANTA_TEST_FAULTS");
    int faults = wanted ? std::atoi(wanted) : 8;
    std::string epochs = std::to_string(std::max(2, faults / 4));
    double result = expected({"--epochs", epochs});
    std::string reports = reports_of(text_of(folder_ / "alone.out"));
    std::mt19937 random(7);
    auto driver = start(
        6, {"--cpus", "0", "--pause-ms", "20", "--max-failures", "-1", "--epochs", epochs}, enter);
    ASSERT_TRUE(driver->says("report 0")) << driver->said();
    int kills = 0, crashes = 0, cuts = 0;
    for (int fault = 0; fault < faults && !driver->has_ended(); ++fault) {
      int host = 1 + static_cast<int>(random() % 3);
      auto processes = hosts_->processes(host);
      if (fault % 3 == 1) {
        int way = cuts++ % 3;
        if (way == 0) hosts_->cut_one_way(0, host);
        if (way == 1) hosts_->cut_one_way(host, 0);
        if (way == 2) hosts_->cut(host);
        std::this_thread::sleep_for(std::chrono::seconds(5));  // the driver has noticed
        hosts_->heal();
      } else if (fault % 4 == 2 || processes.empty()) {
        ++crashes;
        hosts_->crash(host);
      } else {
        ++kills;
        ::kill(processes[random() % processes.size()], SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
    }
    for (int i = 0; i < faults && !driver->has_ended(); ++i) {  // it may have to repeat much work
      driver->says("done ");
    }
    expect_good_end(*driver, result, std::stoull(epochs));
    EXPECT_EQ(reports_of(driver->said()), reports);
    std::cout << "while it trained: " << kills << " processes killed, " << crashes
              << " hosts crashed, " << cuts << " cut off" << std::endl;
  }

  // The host of rank 3, in the middle of an epoch. Another has room for its workers.
  void lose_one_way(const std::function<void(int host)>& cut) {
    make_hosts(4);
    if (IsSkipped()) return;
    double result = expected();
    auto driver = start(4, {"--cpus", "0", "--pause-ms", "60", "--max-failures", "1"},
                        hosts_->enter(), ";replace=no");
    ASSERT_TRUE(driver->says("report 1")) << driver->said();
    int host = 1;
    while (host < 3 && processes_named(host, "rank-3").empty()) ++host;
    cut(host);
    ASSERT_TRUE(driver->says(str("node n", host, " is lost"))) << driver->said();
    expect_good_end(*driver, result);
    EXPECT_THAT(driver->said(), HasSubstr("going on from checkpoint_"));
    expect_sound_checkpoints();
  }

  // Sends a signal to the processes of that name that are not on the driver's host. Returns how
  // many there are.
  int signal_elsewhere(const std::string& wanted, int signal) {
    int found = 0;
    for (int host = 1; host < count_; ++host) {
      for (pid_t pid : hosts_->processes(host)) {
        std::ifstream in(str("/proc/", pid, "/comm"));
        std::string name;
        std::getline(in, name);
        if (name == wanted && ::kill(pid, signal) == 0) ++found;
      }
    }
    return found;
  }

  void expect_good_end(Running& driver, double result, size_t epochs = 2) {
    expect_result(driver, result, epochs);
    expect_no_processes();
  }
  static void expect_result(Running& driver, double result, size_t epochs = 2) {
    EXPECT_EQ(driver.exit_code(), 0) << driver.said();
    std::string said = driver.said();
    EXPECT_NEAR(result_of(said), result, 1e-4 * result);
    int64_t sum = int64_t{kRows} * (kRows - 1) / 2;
    int64_t squares = int64_t{kRows - 1} * kRows * (2 * kRows - 1) / 6;
    std::string all = str("used [", kRows, ",", sum, ",", squares, "]");
    size_t used = 0;
    for (size_t at = said.find("used ["); at != std::string::npos; at = said.find("used [", at + 1))
      used += said.compare(at, all.size(), all) == 0 ? 1 : 1000000;
    EXPECT_EQ(used, epochs) << said;
  }
};

TEST_F(HostsTest, TrainsAsOnOneMachine) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(6, {}, hosts_->enter());
  expect_good_end(*driver, result);
  std::string said = driver->said();
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_THAT(said, ContainsRegex(str("rank ", rank, " is ", rank % 2, " of 2 on n[012], node ",
                                        rank / 2, " of 3")));
  }
}

// Each host decodes its windows and sends the others their rows: the rows, their order and the
// parameters are the same.
TEST_F(HostsTest, HostsThatShareTheReadingTrainAsOnOneMachine) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(6, {"--split", "1"}, hosts_->enter());
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("data set 'train': its windows are split between 3 hosts"));
}

// Ranks 0, 2 and 1, 3: the rows that a host needs are not next to each other.
TEST_F(HostsTest, HostsThatShareTheReadingAndHaveEveryOtherRank) {
  make_hosts(2);
  if (IsSkipped()) return;
  double result = expected({"--in-memory", "1"});
  auto driver =
      start(4, {"--split", "1", "--spread", "1", "--in-memory", "1"}, enter_without_folder());
  expect_good_end(*driver, result);
}

TEST_F(HostsTest, ByDefaultEachHostReadsASmallDataSet) {
  make_hosts(2);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(4, {}, hosts_->enter());
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("data set 'train': each of 2 hosts reads all of it: it is "
                                        "so small that epochs after the first read nothing"));
}

// What a function makes is made again in each epoch, however small it is.
TEST_F(HostsTest, ByDefaultTheFirstHostDecidesWhoReads) {
  make_hosts(2);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(4, {"--function", "1"}, hosts_->enter());
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), ContainsRegex("data set 'train': (its windows are split between 2 "
                                            "hosts|each of 2 hosts reads all of it): a window"));
}

// Readers listen only until they are connected with each other.
TEST_F(HostsTest, ReadersOfHostsThatShareTheReadingDoNotListen) {
  make_hosts(2);
  if (IsSkipped()) return;
  auto driver = start(4, {"--split", "1", "--pause-ms", "30"}, hosts_->enter());
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  for (int host = 0; host < 2; ++host) {
    auto readers = processes_named(host, "data-reader");
    ASSERT_EQ(readers.size(), 1u);
    EXPECT_THAT(hosts_->listeners(host, readers.front()), testing::IsEmpty());
    EXPECT_THAT(hosts_->listeners(host),
                testing::Each(testing::StartsWith(NetworkHosts::address(host) + ":")));
  }
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
}

// The rows that all ranks of rows_hosts took together, in two epochs. A report that was made again
// counts once, and must have the same rows.
std::vector<int64_t> taken(const std::string& said) {
  std::map<std::pair<int, int>, std::vector<int64_t>> reports;
  std::regex line("rank ([0-9]+) report ([0-9]+) took ([0-9]+) ([0-9]+) ([0-9]+)");
  for (std::sregex_iterator found(said.begin(), said.end(), line), end; found != end; ++found) {
    std::vector<int64_t> rows;
    for (size_t i = 3; i < 6; ++i) rows.push_back(std::stoll((*found)[i]));
    auto [place, is_new] =
        reports.try_emplace({std::stoi((*found)[1]), std::stoi((*found)[2])}, rows);
    EXPECT_EQ(place->second, rows) << (*found)[0];
  }
  std::vector<int64_t> sums(3);
  for (const auto& [report, rows] : reports) {
    for (size_t i = 0; i < 3; ++i) sums[i] += rows[i];
  }
  return sums;
}
const std::vector<int64_t> kAllTaken = {2 * int64_t{kRows}, int64_t{kRows} * (kRows - 1),
                                        int64_t{kRows - 1} * kRows*(2 * kRows - 1) / 3};

TEST_F(HostsTest, HostsThatCannotReachEachOtherReadAllData) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto run = [&](const std::string& name, const std::string& split) {
    auto driver = start_driver(
        {test_program("rows_hosts"), storage(), name, folder_ / "data.parquet", "6", split},
        {{"MANTA_CLUSTER", cluster(hosts_->enter(), "")}});
    EXPECT_EQ(driver->exit_code(), 0) << driver->said();
    EXPECT_EQ(taken(driver->said()), kAllTaken) << driver->said();
    return driver->said();
  };
  EXPECT_THAT(run("all", "never"), testing::Not(HasSubstr("data set 'train'")));
  EXPECT_THAT(run("split", "always"), HasSubstr("its windows are split between 3 hosts"));
  hosts_->cut_one_way(1, 2);
  hosts_->cut_one_way(2, 1);
  EXPECT_THAT(run("cut", "auto"),
              ContainsRegex("each host reads all data: the data readers? of n[12] "));
}

// Kills a reader, then a worker, in the middle of an epoch: every row is taken once, by the same
// rank as without failures.
TEST_F(HostsTest, KilledProcessesOfHostsThatShareTheReading) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start_driver(
      {test_program("rows_hosts"), storage(), "run", folder_ / "data.parquet", "6", "always", "20"},
      {{"MANTA_CLUSTER", cluster(enter_without_folder(), "")}});
  ASSERT_TRUE(driver->says("report 2 took")) << driver->said();
  for (pid_t pid : processes_named(2, "data-reader")) ::kill(pid, SIGKILL);
  ASSERT_TRUE(driver->says("going on from checkpoint_")) << driver->said();
  ASSERT_TRUE(driver->says("report 8 took")) << driver->said();
  for (int host : {0, 1, 2}) {
    for (pid_t pid : processes_named(host, "rank-2")) ::kill(pid, SIGKILL);
  }
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_EQ(taken(driver->said()), kAllTaken) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("rank 2 failed"));
}

TEST_F(HostsTest, AKilledReaderOfAHostThatSharesTheReading) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver =
      start(6, {"--split", "1", "--pause-ms", "30", "--max-failures", "5"}, enter_without_folder());
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  for (pid_t pid : processes_named(2, "data-reader")) ::kill(pid, SIGKILL);
  ASSERT_TRUE(driver->says("going on from checkpoint_")) << driver->said();
  // Then kills a worker of another host, in the next attempt.
  ASSERT_TRUE(driver->says("report 4")) << driver->said();
  for (int host : {0, 1, 2}) {
    for (pid_t pid : processes_named(host, "rank-2")) ::kill(pid, SIGKILL);
  }
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("data reader"));
  EXPECT_THAT(driver->said(), HasSubstr("rank 2 failed"));
}

TEST_F(HostsTest, AHostThatSharesTheReadingIsCutOff) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver =
      start(6, {"--split", "1", "--pause-ms", "30", "--max-failures", "3", "--min-workers", "3"},
            enter_without_folder(), ";replace=no");
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  hosts_->cut(2);
  EXPECT_TRUE(driver->says("node n2 is lost")) << driver->said();
  expect_result(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("its windows are split between 2 hosts"));
}

TEST_F(HostsTest, WorksWhereNothingIsShared) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected({"--in-memory", "1"});
  auto driver = start(4, {"--cpus", "0", "--in-memory", "1"}, enter_without_folder());
  expect_good_end(*driver, result);
  EXPECT_THAT(log_of("rank-3"), ContainsRegex("rank 3 is 1 of 2 on n[12], node 1 of 2"));
}

// Checkpoints come from hosts that do not see the driver's folder, and go to a store. The next
// driver, on a machine that has nothing of the run, gets them from there and sends them on.
TEST_F(HostsTest, ARunAtAnAddressGoesOnWithAnotherDriver) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  data::S3Server server({hosts_->enter(), "n0"});
  std::string home = folder_ / "home", other_home = folder_ / "other_home";
  auto start_at = [&](const std::string& at_home, std::vector<std::string> options) {
    std::filesystem::create_directories(at_home);
    auto words = program(6, std::move(options));
    words[1] = server.address("runs");
    std::string others = cluster(enter_without_folder(at_home), "");
    return start_driver(words, {{"MANTA_CLUSTER", others}, {"HOME", at_home}});
  };
  auto first = start_at(home, {"--pause-ms", "10", "--report-every", "5"});
  EXPECT_TRUE(eventually([&] { return server.has("runs/run/checkpoint_000003/manifest.json"); }))
      << first->said();
  ::kill(first->pid(), SIGKILL);
  first->exit_code();
  for (int host : {1, 2}) {
    EXPECT_TRUE(eventually([&] { return hosts_->processes(host).empty(); })) << "n" << host;
  }
  auto second = start_at(other_home, {"--restore", "1", "--report-every", "5"});
  expect_result(*second, result);
  EXPECT_THAT(second->said(), Not(HasSubstr("report 3:")));
}

TEST_F(HostsTest, GlooBetweenAllRanks) {
  make_hosts(2);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(3, {"--gloo", "1", "--spread", "1"}, hosts_->enter());
  expect_good_end(*driver, result);
}

TEST_F(HostsTest, AHostThatCrashesIsReplaced) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(6, {"--pause-ms", "30", "--max-failures", "3"}, enter_without_folder());
  ASSERT_TRUE(driver->says("report 2")) << driver->said();
  hosts_->crash(2);
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("node n2 is lost"));
  EXPECT_THAT(driver->said(), HasSubstr("going on from checkpoint_"));
}

TEST_F(HostsTest, GoesOnOnFewerHostsAfterOneWasCutOff) {
  make_hosts(4);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(6, {"--cpus", "0", "--pause-ms", "30", "--max-failures", "3"},
                      enter_without_folder(), ";replace=no;wait=60");
  ASSERT_TRUE(driver->says("report 2")) << driver->said();
  hosts_->cut(3);
  // The host ends its processes by itself, after the 10 seconds of fence_after.
  EXPECT_TRUE(eventually([&] { return hosts_->processes(3).empty(); }, std::chrono::seconds(30)));
  EXPECT_TRUE(driver->says("node n3 is lost")) << driver->said();
  EXPECT_EQ(driver->exit_code(), 1) << driver->said();  // there is no room for six any more
  EXPECT_THAT(driver->said(), HasSubstr("failed"));
  // On fewer hosts the run goes on where it was.
  hosts_ = nullptr;
  make_hosts(3);
  if (IsSkipped()) return;
  driver = start(4, {"--restore", "1"}, enter_without_folder());
  expect_good_end(*driver, result);
}

// Its workers go on with the old attempt, but their reports do not arrive.
TEST_F(HostsTest, AHostThatTheDriverDoesNotHearIsDoneWithout) {
  lose_one_way([&](int host) { hosts_->cut_one_way(host, 0); });
}

// Its workers' reports arrive until the host counts as lost; later ones are ignored.
TEST_F(HostsTest, AHostThatDoesNotHearTheDriverIsDoneWithout) {
  lose_one_way([&](int host) { hosts_->cut_one_way(0, host); });
}

TEST_F(HostsTest, AKilledWorkerOnAnotherHost) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(6, {"--pause-ms", "30", "--max-failures", "3"}, hosts_->enter());
  ASSERT_TRUE(driver->says("report 2")) << driver->said();
  signal_elsewhere("rank-2", SIGKILL);
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("rank 2 failed"));
}

// If a rank hangs on another host, its stack is taken there, and is in the run's folder.
TEST_F(HostsTest, TheStackOfARankThatHangsOnAnotherHost) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver =
      start(4, {"--cpus", "0", "--pause-ms", "5", "--epochs", "1000", "--timeout-ms", "5000"},
            enter_without_folder());
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  ASSERT_EQ(signal_elsewhere("rank-3", SIGSTOP), 1);
  EXPECT_EQ(driver->exit_code(), 1) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("the stacks of its processes: " + run_folder()));
  std::string text = text_of(run_folder() + "/logs/stacks-0.txt");
  size_t rank_3 = text.find("\nrank-3 (pid ");
  ASSERT_NE(rank_3, std::string::npos) << text;
  EXPECT_THAT(text.substr(rank_3), HasSubstr("T (stopped)")) << text;
  EXPECT_THAT(text.substr(rank_3), HasSubstr("loop(")) << text;
  EXPECT_THAT(text, HasSubstr("rank-0 (pid "));
}

// Workers that stay, on several hosts.
TEST_F(HostsTest, TheEarlierStyleAsOnOneMachine) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(6, {"--earlier", "1"}, hosts_->enter());
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), ContainsRegex("on (n0 n0 n[12] n[12] n[12] n[12]), and again"));
}

TEST_F(HostsTest, TheEarlierStyleWhereNothingIsSharedAndAWorkerIsKilled) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected({"--in-memory", "1"});
  auto driver = start(4,
                      {"--earlier", "1", "--cpus", "0", "--in-memory", "1", "--pause-ms", "30",
                       "--max-failures", "3"},
                      enter_without_folder());
  ASSERT_TRUE(driver->says("report 2")) << driver->said();
  ASSERT_EQ(signal_elsewhere("rank-2", SIGKILL), 1);
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("rank 2 failed"));
}

TEST_F(HostsTest, GoesOnWithFewerWorkersIfItMay) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(6, {"--pause-ms", "30", "--max-failures", "1", "--min-workers", "3"},
                      enter_without_folder(), ";replace=no");
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  hosts_->crash(2);
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("there is room for 4 of 6 workers now"));
}

TEST_F(HostsTest, LeavesAHostThatWillBeTakenAway) {
  make_hosts(4);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(4, {"--cpus", "0", "--pause-ms", "30"}, enter_without_folder());
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  std::smatch where;
  std::string said = driver->said();
  ASSERT_TRUE(std::regex_search(said, where, std::regex("rank 3 is 1 of 2 on n([123])"))) << said;
  // As Slurm does before it takes a job away.
  for (pid_t pid : hosts_->processes(std::stoi(where[1]))) ::kill(pid, SIGTERM);
  expect_good_end(*driver, result);  // no failure is allowed
  EXPECT_THAT(driver->said(), HasSubstr("the group is started again elsewhere"));
}

// Its replacement can come only after it, and so is no reason to stop.
TEST_F(HostsTest, StaysOnAHostThatWillBeTakenAwayIfThereIsNoOtherRoom) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(4, {"--cpus", "0", "--pause-ms", "30"}, enter_without_folder());
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  for (pid_t pid : hosts_->processes(2)) ::kill(pid, SIGTERM);
  expect_good_end(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("n2 will be taken away"));
  EXPECT_THAT(driver->said(), testing::Not(HasSubstr("started again elsewhere")));
}

// Its loop makes no report within an epoch, unless it is told to stop.
TEST_F(HostsTest, LeavesAHostThatWillBeTakenAwayAtOnceIfTheLoopAsks) {
  make_hosts(4);
  if (IsSkipped()) return;
  double result = expected();
  auto driver =
      start(4, {"--cpus", "0", "--pause-ms", "100", "--asks", "1", "--report-every", "100000"},
            enter_without_folder());
  ASSERT_TRUE(driver->says("rank 3 is")) << driver->said();
  std::smatch where;
  std::string said = driver->said();
  ASSERT_TRUE(std::regex_search(said, where, std::regex("rank 3 is 1 of 2 on n([123])"))) << said;
  for (pid_t pid : hosts_->processes(std::stoi(where[1]))) ::kill(pid, SIGTERM);
  expect_good_end(*driver, result);  // no failure is allowed
  EXPECT_THAT(driver->said(), HasSubstr("the group is started again elsewhere"));
  std::ifstream in(run_folder() + "/result.json");
  std::string first;
  std::getline(in, first);
  EXPECT_EQ(Json::parse(first).at("ends"), false) << first;
}

// There is no other host, but fewer workers may go on where they are.
TEST_F(HostsTest, LeavesAHostThatWillBeTakenAwayForWhatIsLeft) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(4,
                      {"--cpus", "0", "--pause-ms", "100", "--asks", "1", "--report-every",
                       "100000", "--min-workers", "2"},
                      enter_without_folder(), ";replace=no");
  ASSERT_TRUE(driver->says("rank 3 is")) << driver->said();
  std::smatch where;
  std::string said = driver->said();
  ASSERT_TRUE(std::regex_search(said, where, std::regex("rank 3 is 1 of 2 on n([12])"))) << said;
  for (pid_t pid : hosts_->processes(std::stoi(where[1]))) ::kill(pid, SIGTERM);
  expect_good_end(*driver, result);  // no failure is allowed
  EXPECT_THAT(driver->said(), HasSubstr("there is room for 2 of 4 workers now"));
}

// Data readers start when all workers are there, but not on a host that drains by then.
TEST_F(HostsTest, LeavesAHostThatIsTakenAwayBeforeTheLoopBegins) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  std::string starts = folder_ / "n2_starts", enter = folder_ / "enter_late";
  std::ofstream(enter) << "#!/bin/sh\n[ $1 = n2 ] && export TORCH_HOSTS_START_AFTER=" << starts
                       << "\nexec " << enter_without_folder() << " \"$@\"\n";
  std::filesystem::permissions(enter, std::filesystem::perms::owner_all);
  auto driver = start(4, {"--cpus", "0", "--min-workers", "2"}, enter, ";replace=no");
  ASSERT_TRUE(eventually([&] { return !processes_named(1, "rank-").empty(); })) << driver->said();
  for (pid_t pid : hosts_->processes(1)) ::kill(pid, SIGTERM);
  ASSERT_TRUE(driver->says("node n1 will be taken away")) << driver->said();
  std::ofstream(starts) << "now";
  expect_good_end(*driver, result);  // no failure is allowed
  EXPECT_THAT(driver->said(), HasSubstr("there is room for 2 of 4 workers now"));
}

// There is no room for all workers, either. The loop's work until then is not lost.
TEST_F(HostsTest, AHostIsTakenAwayForWhichThereIsNoOther) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  std::vector<std::string> options = {"--cpus", "0", "--pause-ms",     "100",
                                      "--asks", "1", "--report-every", "100000"};
  auto driver = start(4, options, enter_without_folder(), ";replace=no");
  ASSERT_TRUE(driver->says("rank 3 is")) << driver->said();
  std::smatch where;
  std::string said = driver->said();
  ASSERT_TRUE(std::regex_search(said, where, std::regex("rank 3 is 1 of 2 on n([12])"))) << said;
  for (pid_t pid : hosts_->processes(std::stoi(where[1]))) ::kill(pid, SIGTERM);
  EXPECT_EQ(driver->exit_code(), 1) << driver->said();
  EXPECT_THAT(driver->said(), AllOf(HasSubstr("failed resources: the driver failed: "),
                                    HasSubstr("whose last checkpoint is checkpoint_000000")));
  EXPECT_EQ(attempt_of(0), 0);
  hosts_ = nullptr;
  make_hosts(3);
  if (IsSkipped()) return;
  driver = start(4, {"--cpus", "0", "--restore", "1"}, enter_without_folder());
  expect_good_end(*driver, result);
}

TEST_F(HostsTest, TreesAsOnOneMachine) {
  make_hosts(3);
  if (IsSkipped()) return;
  std::vector<std::string> words = {test_program("trees_hosts"), storage(), "trees",
                                    MANTA_EXAMPLE_DATA "/breast_cancer.csv", "4"};
  auto metrics = [&](Running& driver) {
    EXPECT_EQ(driver.exit_code(), 0) << driver.said();
    std::string said = driver.said();
    std::smatch found;
    EXPECT_TRUE(std::regex_search(said, found, std::regex("logloss ([0-9.]+) on 569 rows")))
        << said;
    return found.size() > 1 ? std::stod(found[1]) : NAN;
  };
  auto on_one = words;
  on_one[2] = "on-one";
  on_one.push_back("4");
  Running one(on_one, {}, folder_ / "one.out");
  double expected = metrics(one);
  words.push_back("0");
  auto driver = start_driver(words, {{"MANTA_CLUSTER", cluster(enter_without_folder(), "")}});
  EXPECT_NEAR(metrics(*driver), expected, 1e-6);
}

// A hundred trees with random choices, from checkpoints: bit by bit the same.
TEST_F(HostsTest, TreesAreTheSameIfAHostIsLostWhileTheyGrow) {
  make_hosts(4);
  if (IsSkipped()) return;
  auto start_trees = [&](const std::string& name) {
    return start_driver({test_program("trees_hosts"), storage(), name,
                         MANTA_EXAMPLE_DATA "/breast_cancer.csv", "4", "0", folder_ / name},
                        {{"MANTA_CLUSTER", cluster(enter_without_folder(), ";replace=no")}});
  };
  // Each round's metrics, and a digest of the model.
  auto outcome = [&](Running& driver) {
    EXPECT_EQ(driver.exit_code(), 0) << driver.said();
    std::istringstream in(driver.said());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("round: ") || line.starts_with("model: ")) lines.push_back(line);
    }
    EXPECT_EQ(lines.size(), 101u) << driver.said();
    return lines;
  };
  std::ofstream(folder_ / "undisturbed").close();
  auto undisturbed = outcome(*start_trees("undisturbed"));
  const std::map<std::string, std::function<void(int)>> losses = {
      {"crash", [&](int host) { hosts_->crash(host); }},
      {"cut", [&](int host) { hosts_->cut(host); }}};
  for (const auto& [name, lose] : losses) {
    auto driver = start_trees(name);
    ASSERT_TRUE(driver->says("stands still")) << driver->said();
    int host = 1;
    while (host < 3 && processes_named(host, "rank-3").empty()) ++host;
    ASSERT_EQ(processes_named(host, "rank-3").size(), 1u) << driver->said();
    lose(host);
    ASSERT_TRUE(driver->says(str("node n", host, " is lost"))) << driver->said();
    std::ofstream(folder_ / name).close();
    EXPECT_EQ(outcome(*driver), undisturbed) << name;
    EXPECT_THAT(driver->said(), HasSubstr("going on from checkpoint_")) << name;
    hosts_->heal();
  }
  expect_no_processes();
}

TEST_F(HostsTest, OnSlurm) {
  make_hosts(4);
  if (IsSkipped()) return;
  std::unique_ptr<SlurmCluster> slurm;
  try {
    slurm = std::make_unique<SlurmCluster>(*hosts_, 4);
  } catch (const Error& error) {
    GTEST_SKIP() << "a Slurm cluster for this test cannot be made here: " << error.what();
  }
  double result = expected();
  auto words = program(6, {"--cpus", "0"});
  words.insert(words.begin(), {"salloc", "-N3", "--exclusive"});
  auto variables = slurm->environment();
  variables["MANTA_CLUSTER"] = "slurm";
  auto driver = start_driver(words, variables);
  expect_result(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("node 2 of 3"));
}

TEST_F(HostsTest, OnRay) {
  make_hosts(4);
  if (IsSkipped()) return;
  std::unique_ptr<RayCluster> ray;
  try {
    ray = std::make_unique<RayCluster>(*hosts_, 4, MANTA_COUNTERPARTS);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResources) throw;
    GTEST_SKIP() << "a Ray cluster for this test cannot be made here: " << error.what();
  }
  double result = expected();
  auto variables = RayCluster::environment();
  variables["MANTA_CLUSTER"] = str("ray:3;python=", ray->python());
  auto driver = start_driver(program(6, {"--cpus", "0"}), variables);
  expect_result(*driver, result);
  EXPECT_THAT(driver->said(), HasSubstr("node 2 of 3"));
}

TEST_F(HostsTest, RandomFaultsLoseNothing) {
  make_hosts(4);
  if (IsSkipped()) return;
  train_through_faults(enter_without_folder());
}

// Ranks write into the run's folder themselves, also those of hosts that count as lost.
TEST_F(HostsTest, RandomFaultsLoseNothingInASharedFolder) {
  make_hosts(4);
  if (IsSkipped()) return;
  train_through_faults(hosts_->enter());
  expect_sound_checkpoints();
}

// Its ranks see the run's folder. Cut off, they go on with the old attempt, and write all files of
// the next report; then they stand still until the run has committed another checkpoint of that
// report elsewhere.
TEST_F(HostsTest, ACutOffHostThatSeesTheFolderChangesNoCheckpoint) {
  make_hosts(3);
  if (IsSkipped()) return;
  double result = expected();
  auto driver = start(2, {"--cpus", "0", "--pause-ms", "60", "--max-failures", "1"},
                      hosts_->enter(), ";replace=no");
  ASSERT_TRUE(driver->says("report 1")) << driver->said();
  std::smatch where;
  std::string said = driver->said();
  ASSERT_TRUE(std::regex_search(said, where, std::regex("rank 1 is 1 of 2 on n([12])"))) << said;
  int host = std::stoi(where[1]);
  hosts_->cut(host);
  int next = 0;  // the first report that is not committed
  auto is_written = [&] {
    while (attempt_of(next) >= 0) ++next;
    std::error_code none;
    std::string staging = str(run_folder(), "/.staging/attempt-0/report-", next);
    std::filesystem::recursive_directory_iterator each(staging, none), end;
    return !none && std::any_of(each, end, [](const auto& entry) {
      return entry.path().filename() == "model.safetensors";
    });
  };
  ASSERT_TRUE(eventually(is_written)) << driver->said();
  auto frozen = hosts_->processes(host);
  for (pid_t pid : frozen) ::kill(pid, SIGSTOP);
  ASSERT_TRUE(driver->says(str("going on from checkpoint_00000", next - 1))) << driver->said();
  ASSERT_TRUE(eventually([&] { return attempt_of(next) == 1; })) << driver->said();
  hosts_->heal();
  for (pid_t pid : frozen) ::kill(pid, SIGCONT);
  expect_good_end(*driver, result);
  expect_sound_checkpoints();
  for (int index = 0; index < 8; ++index) {
    EXPECT_EQ(attempt_of(index), index < next ? 0 : 1) << index;
  }
}

TEST_F(HostsTest, WhatNoNodesHoldIsRefused) {
  make_hosts(2);
  if (IsSkipped()) return;
  auto driver = start(5, {}, hosts_->enter());
  EXPECT_EQ(driver->exit_code(), 1) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("scaling_config asks for 5 workers with 1 CPU"));
  EXPECT_FALSE(std::filesystem::exists(run_folder()));
}

}  // namespace
}  // namespace manta
