// A training run as processes: what survives when one of them is killed, stopped or fails.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "manta/base/json.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/checkpoint.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

void write_data(const std::string& path, int rows) {
  std::mt19937 random(5);
  std::vector<arrow::DoubleBuilder> builders(4);
  for (int i = 0; i < rows; ++i) {
    double sum = 0;
    for (int column = 0; column < 3; ++column) {
      double value = static_cast<double>(random()) / 4294967296.0 - 0.5;
      sum += value * (column + 1);
      ASSERT_TRUE(builders[static_cast<size_t>(column)].Append(value).ok());
    }
    ASSERT_TRUE(builders[3].Append(sum).ok());
  }
  arrow::ArrayVector columns;
  arrow::FieldVector fields;
  for (size_t i = 0; i < 4; ++i) {
    columns.push_back(builders[i].Finish().ValueOrDie());
    fields.push_back(arrow::field(std::string(1, "abcy"[i]), arrow::float64()));
  }
  auto out = arrow::io::FileOutputStream::Open(path).ValueOrDie();
  ASSERT_TRUE(parquet::arrow::WriteTable(*arrow::Table::Make(arrow::schema(fields), columns),
                                         arrow::default_memory_pool(), out, 100)
                  .ok());
  ASSERT_TRUE(out->Close().ok());
}

std::string name_of_process(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(in, name);
  return name;
}

class Training : public testing::Test {
 protected:
  void SetUp() override { write_data(data(), 1000); }

  std::string data() const { return files_.path() + "/data.parquet"; }
  std::string run(const std::string& name) const { return files_.path() + "/runs/" + name; }

  std::unique_ptr<Program> start(const std::string& name, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments{files_.path() + "/runs", name, data(), "--quiet"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return std::make_unique<Program>(test_program("torch_job"), arguments, temporary_.path());
  }

  // Runs it to its end, and returns the last line that it prints.
  std::string finish(Program& program) {
    std::string last;
    for (std::string line = program.read_line(); !line.empty(); line = program.read_line()) {
      last += (last.empty() ? "" : "\n") + line;
    }
    program.wait();
    return last;
  }

  std::vector<pid_t> processes(const Program& program, const std::set<std::string>& names) {
    std::vector<pid_t> found;
    for (pid_t pid : descendants(program.pid())) {
      if (names.contains(name_of_process(pid))) found.push_back(pid);
    }
    return found;
  }

  // Every report once, in order; every checkpoint whole; nothing else in the folder.
  void expect_clean_run(const std::string& name, int reports) {
    std::ifstream in(run(name) + "/result.json");
    int count = 0;
    for (std::string line; std::getline(in, line);) {
      EXPECT_EQ(Json::parse(line).at("training_iteration"), ++count);
    }
    EXPECT_EQ(count, reports);
    std::set<std::string> known{"journal.jsonl", "params.json", "result.json",
                                "progress.csv",  "logs",        ".lock"};
    for (const auto& entry : std::filesystem::directory_iterator(run(name))) {
      std::string file = entry.path().filename().string();
      if (known.contains(file)) continue;
      ASSERT_THAT(file, StartsWith("checkpoint_"));
      EXPECT_TRUE(Checkpoint::from_directory(entry.path().string())) << file;
    }
    EXPECT_TRUE(eventually([&] { return temporary_.entries().empty(); }))
        << temporary_.entries().front();
  }

  TemporaryFolder files_, temporary_;
};

TEST_F(Training, AFinishedRunIsRestoredAsItIs) {
  auto program = start("finished", {"--epochs", "1"});
  std::string expected = finish(*program);
  ASSERT_THAT(expected, StartsWith("done"));
  auto again = start("finished", {"--epochs", "2", "--restore"});
  EXPECT_EQ(finish(*again), expected);
  expect_clean_run("finished", 8);
}

TEST_F(Training, AnExceptionInTheLoopEndsTheRun) {
  auto program = start("throws", {"--throw-at", "5"});
  EXPECT_THAT(
      finish(*program),
      AllOf(StartsWith("failed user code: rank 1 failed: std::runtime_error: the loop does not "
                       "like step 5"),
            HasSubstr("its log: " + run("throws") + "/logs/rank-1.log"),
            HasSubstr("whose last checkpoint is checkpoint_00000")));
}

TEST_F(Training, AWorkerThatExitsEndsTheRun) {
  auto program = start("exits", {"--exit-at", "5"});
  EXPECT_THAT(finish(*program), AllOf(StartsWith("failed worker lost: rank 1 failed:"),
                                      HasSubstr("exited with code 7")));
}

TEST_F(Training, AnExceptionIsTriedAgainAsOftenAsAllowed) {
  auto program = start("throws", {"--throw-at", "5", "--max-failures", "2"});
  EXPECT_THAT(finish(*program), StartsWith("failed user code: rank 1 failed:"));
  std::ifstream in(run("throws") + "/journal.jsonl");
  int failures = 0;
  for (std::string line; std::getline(in, line);) {
    failures += line.find("attempt_failed") != std::string::npos;
  }
  EXPECT_EQ(failures, 3);
}

// The sockets of a run lie below TMPDIR; the system's limit for a socket's path is 107 characters.
TEST_F(Training, ATemporaryFolderMayHaveALongPath) {
  std::string folder = temporary_.path() + "/" + std::string(200, 'd');
  std::filesystem::create_directories(folder);
  Program program(test_program("torch_job"),
                  {files_.path() + "/runs", "long", data(), "--quiet", "--throw-at", "5",
                   "--max-failures", "11"},
                  folder);
  EXPECT_THAT(finish(program), StartsWith("failed user code: rank 1 failed:"));
  std::ifstream in(run("long") + "/journal.jsonl");
  int failures = 0;
  for (std::string line; std::getline(in, line);) {
    failures += line.find("attempt_failed") != std::string::npos;
  }
  EXPECT_EQ(failures, 12);
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(folder); }));
}

TEST_F(Training, WithoutInitEveryCallSaysSo) {
  Program program(test_program("torch_job"), {"no_init"}, temporary_.path());
  for (const char* call : {"TorchTrainer::fit", "put", "cluster_resources"}) {
    EXPECT_THAT(program.read_line(),
                AllOf(HasSubstr(call), HasSubstr("manta::init(argc, argv)"), HasSubstr("main")));
  }
  EXPECT_EQ(program.wait(), 0);
}

TEST_F(Training, AWorkerThatIsStoppedIsNamed) {
  for (const char* backend : {"shm", "gloo"}) {
    std::string name = std::string("stops-") + backend;
    auto program = start(name, {"--epochs", "1000", "--pause-ms", "1", "--timeout-ms", "3000",
                                "--backend", backend, "--keep", "1"});
    std::vector<pid_t> found;
    ASSERT_TRUE(eventually([&] {
      return std::filesystem::exists(run(name) + "/checkpoint_000003") ||
             std::filesystem::exists(run(name) + "/checkpoint_000009");
    }));
    ASSERT_TRUE(eventually([&] { return !(found = processes(*program, {"rank-1"})).empty(); }));
    ::kill(found.front(), SIGSTOP);
    std::string line = finish(*program);
    EXPECT_THAT(line, HasSubstr("rank 0 failed:"));
    if (backend == std::string("shm")) {
      EXPECT_THAT(line, AllOf(StartsWith("failed timeout"), HasSubstr("rank 1")));
      // Where the stopped rank stands is in the file that the error names.
      std::string stacks = run(name) + "/logs/stacks-0.txt";
      EXPECT_THAT(line, HasSubstr("the stacks of its processes: " + stacks));
      std::ifstream in(stacks);
      std::string text(std::istreambuf_iterator<char>(in), {});
      size_t rank_1 = text.find("\nrank-1 (pid ");
      ASSERT_NE(rank_1, std::string::npos) << text;
      EXPECT_THAT(text.substr(rank_1), AllOf(HasSubstr("T (stopped)"), HasSubstr("loop(")));
      EXPECT_THAT(text, AllOf(HasSubstr("rank-0 (pid "), HasSubstr("data-reader (pid ")));
    }
    EXPECT_TRUE(eventually([&] { return temporary_.entries().empty(); }));
  }
}

TEST_F(Training, AFullDiskIsSaidAndLeavesTheLastCheckpoint) {
  // Four checkpoints of about 1.2 MB fit.
  auto program = start("full", {"--disk", "5m", "--width", "20000", "--epochs", "1"});
  std::string line = finish(*program);
  if (line == "cannot mount") GTEST_SKIP() << "this needs the right to mount";
  EXPECT_THAT(line, AllOf(StartsWith("failed io"), HasSubstr("No space left on device"),
                          HasSubstr("whose last checkpoint is checkpoint_00000")));
}

TEST_F(Training, WhatHappensToWeightsAfterReportIsNotInTheFile) {
  auto first = start("first", {"--epochs", "1", "--report-every", "16"});
  auto second = start("second", {"--epochs", "1", "--report-every", "16", "--mutate"});
  std::string expected = finish(*first);
  EXPECT_THAT(expected, StartsWith("done"));
  EXPECT_EQ(finish(*second), expected);
}

TEST_F(Training, CtrlCLeavesAStateToGoOnFrom) {
  auto undisturbed = start("undisturbed");
  std::string expected = finish(*undisturbed);
  auto program = start("interrupted", {"--pause-ms", "20"});
  ASSERT_TRUE(eventually(
      [&] { return std::filesystem::exists(run("interrupted") + "/checkpoint_000001"); }));
  program->send(SIGINT);
  EXPECT_THAT(finish(*program), StartsWith("failed cancelled: the run was interrupted"));
  EXPECT_TRUE(eventually([&] { return temporary_.entries().empty(); }));
  auto rest = start("interrupted", {"--restore"});
  EXPECT_EQ(finish(*rest), expected);
  expect_clean_run("interrupted", 16);
}

// The only checkpoints of these runs are those that the loop makes when it is told to stop.
TEST_F(Training, ALoopThatAsksLeavesACheckpointWhenItIsStopped) {
  std::vector<std::string> options{"--asks", "--report-every", "32", "--workers", "3"};
  auto undisturbed = start("undisturbed", options);
  std::string expected = finish(*undisturbed);
  expected.resize(expected.find(" ["));
  for (int signal : {SIGINT, SIGTERM}) {
    std::string name = "asks" + std::to_string(signal);
    auto slow = options;
    slow.insert(slow.end(), {"--pause-ms", "200"});
    auto program = start(name, slow);
    ASSERT_TRUE(eventually([&] {
      std::ifstream in(run(name) + "/logs/rank-0.log");
      std::string said(std::istreambuf_iterator<char>(in), {});
      return said.find("has asked") != std::string::npos;
    }));
    program->send(signal);
    EXPECT_THAT(finish(*program), StartsWith("failed cancelled: the run was interrupted"));
    EXPECT_TRUE(std::filesystem::exists(run(name) + "/checkpoint_000000"));
    auto again = options;
    again.push_back("--restore");
    auto rest = start(name, again);
    EXPECT_THAT(finish(*rest), StartsWith(expected));
    expect_clean_run(name, 2);
  }
}

// As systemd does, or a machine that shuts down: here workers, data reader and zygote are asked
// first.
TEST_F(Training, ALoopThatAsksLeavesACheckpointWhenAllProcessesAreAskedToEnd) {
  std::vector<std::string> options{"--asks", "--report-every", "32", "--workers", "2"};
  auto undisturbed = start("undisturbed", options);
  std::string expected = finish(*undisturbed);
  expected.resize(expected.find(" ["));
  auto slow = options;
  slow.insert(slow.end(), {"--pause-ms", "200"});
  auto program = start("all", slow);
  ASSERT_TRUE(eventually([&] {
    std::ifstream in(run("all") + "/logs/rank-0.log");
    std::string said(std::istreambuf_iterator<char>(in), {});
    return said.find("has asked") != std::string::npos;
  }));
  auto all = descendants(program->pid());
  EXPECT_EQ(processes(*program, {"rank-0", "rank-1", "data-reader", "manta:zygote"}).size(), 4u);
  for (pid_t pid : all) ::kill(pid, SIGTERM);
  program->send(SIGTERM);
  EXPECT_THAT(finish(*program), StartsWith("failed cancelled: the run was interrupted"));
  EXPECT_TRUE(std::filesystem::exists(run("all") + "/checkpoint_000000"));
  EXPECT_TRUE(eventually([&] { return std::none_of(all.begin(), all.end(), is_running); }));
  options.push_back("--restore");
  auto rest = start("all", options);
  EXPECT_THAT(finish(*rest), StartsWith(expected));
  expect_clean_run("all", 2);
}

TEST_F(Training, ALoopThatDoesNotReturnIsEndedAfterTheGrace) {
  auto program =
      start("late", {"--asks", "--never-returns", "--grace-ms", "500", "--pause-ms", "20"});
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(run("late") + "/checkpoint_000001"); }));
  program->send(SIGTERM);
  EXPECT_THAT(finish(*program), StartsWith("failed cancelled: the run was interrupted"));
  auto rest = start("late", {"--restore"});
  EXPECT_THAT(finish(*rest), StartsWith("done"));
  expect_clean_run("late", 16);
}

TEST_F(Training, ASecondCtrlCEndsAtOnce) {
  auto program = start("twice", {"--asks", "--never-returns", "--pause-ms", "20"});
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(run("twice") + "/checkpoint_000001"); }));
  program->send(SIGINT);
  ASSERT_TRUE(eventually([&] {
    std::ifstream in(run("twice") + "/journal.jsonl");
    return std::string(std::istreambuf_iterator<char>(in), {}).find("interrupted") !=
           std::string::npos;
  }));
  program->send(SIGINT);
  EXPECT_EQ(finish(*program), "");
  EXPECT_TRUE(eventually([&] { return temporary_.entries().empty(); }));
}

TEST_F(Training, AnotherNumberOfWorkersGoesOnWithTheSameSteps) {
  auto undisturbed = start("undisturbed");
  double expected = std::stod(finish(*undisturbed).substr(5));
  auto program = start("fewer", {"--pause-ms", "20", "--workers", "3"});
  ASSERT_TRUE(
      eventually([&] { return std::filesystem::exists(run("fewer") + "/checkpoint_000003"); }));
  program->send(SIGKILL);
  program->wait();
  auto rest = start("fewer", {"--restore", "--workers", "1"});
  std::string line = finish(*rest);
  ASSERT_THAT(line, StartsWith("done"));
  EXPECT_NEAR(std::stod(line.substr(5)), expected, 1e-4 * expected);
  expect_clean_run("fewer", 16);
}

// Ten kills at random moments in each of these; see kSeeds.
class Killed : public Training, public testing::WithParamInterface<int> {};

TEST_P(Killed, EndsAsIfNothingHadHappened) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  std::vector<std::string> options{"--max-failures", "-1", "--epochs", "3", "--pause-ms", "20"};
  auto undisturbed = start("undisturbed", options);
  std::string expected = finish(*undisturbed);
  ASSERT_THAT(expected, StartsWith("done"));
  const std::vector<std::set<std::string>> victims{
      {"rank-0"}, {"rank-1"}, {"rank-0", "rank-1"}, {"data-reader"}, {}};
  int kills = 0;
  for (int runs = 0; kills < 10; ++runs) {
    std::string name = "killed-" + std::to_string(runs);
    auto program = start(name, options);
    while (kills < 10 && is_running(program->pid())) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200'000));
      const auto& victim = victims[random() % victims.size()];
      if (!victim.empty()) {
        auto pids = processes(*program, victim);
        for (pid_t pid : pids) ::kill(pid, SIGKILL);
        kills += !pids.empty();
        continue;
      }
      auto all = descendants(program->pid());
      program->send(SIGKILL);
      program->wait();
      ++kills;
      EXPECT_TRUE(eventually([&] { return std::none_of(all.begin(), all.end(), is_running); }));
      auto again = options;
      again.push_back("--restore");
      program = start(name, again);
    }
    EXPECT_EQ(finish(*program), expected);
    expect_clean_run(name, 24);
  }
}

INSTANTIATE_TEST_SUITE_P(AtRandomMoments, Killed, testing::Range(1, 6));

}  // namespace
}  // namespace manta
