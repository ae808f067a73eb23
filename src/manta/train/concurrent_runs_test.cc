// Several runs at once in one program, with real processes.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/train/base_trainer.h"
#include "manta/train/callback.h"
#include "manta/train/session.h"
#include "manta/train/train_loop.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Three reports with checkpoints; the first attempt of some is killed after the second one.
void report_thrice(const Json& config) {
  auto context = get_context();
  Checkpoint from = get_checkpoint();
  std::string files = context.run_folder + "/mine";
  fs::create_directories(files);
  for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < 3; ++n) {
    std::ofstream(files + "/model") << "weights " << n;
    report({{"n", n}, {"id", config.at("id")}}, files);
    if (n == 1 && context.attempt == 0 && config.at("dies")) ::raise(SIGKILL);
  }
}

void wait_for_ever(const Json&) {
  std::ofstream(get_context().run_folder + "/begun") << "yes";
  while (true) std::this_thread::sleep_for(10ms);
}

Training one_of_many(TrainLoop loop, const std::string& storage, int id) {
  Training training;
  training.trainer = "TestTrainer";
  training.loop = loop.function();
  training.config = {{"id", id}, {"dies", id % 3 == 0}};
  training.scaling.resources_per_worker = {.cpus = 0.2};
  training.run = {.name = str("run", id), .storage_path = storage, .verbose = false};
  training.run.failure_config.max_failures = 1;
  return training;
}

int open_descriptors() {
  return static_cast<int>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

int threads_of_this_process() {
  return static_cast<int>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

// Its loop has begun.
bool has_begun(const TemporaryFolder& storage, int id) {
  return fs::exists(str(storage.path(), "/run", id, "/begun"));
}

TEST(ConcurrentRunsTest, TenRunsWithKillsDoNotDisturbEachOther) {
  TemporaryFolder storage;
  { RunHandle(one_of_many(report_thrice, storage.path(), 100)).result(); }  // what is made once
  int descriptors = open_descriptors(), threads = threads_of_this_process();
  {
    std::vector<RunHandle> runs;
    for (int id = 0; id < 10; ++id) {
      runs.emplace_back(one_of_many(report_thrice, storage.path(), id));
    }
    for (int id = 0; id < 10; ++id) {
      Result result = runs[static_cast<size_t>(id)].result();
      EXPECT_TRUE(runs[static_cast<size_t>(id)].done());
      ASSERT_EQ(result.metrics_history.size(), 3u);
      EXPECT_EQ(result.metrics.at("id"), id);
      EXPECT_EQ(result.metrics.at("n"), 2);
      EXPECT_NO_THROW(Checkpoint::from_directory(result.checkpoint.path()));
    }
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }));
  EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= threads; }));
}

// What happens to each of ten runs at once.
const std::vector<std::string> kFates = {"fine", "fine",   "dies",    "dies",    "dies",
                                         "fine", "reader", "stopped", "stopped", "interrupted"};

// Three epochs of a hundred rows, counted, with a checkpoint after each. In the second epoch of its
// first attempt it meets its fate.
void meet_fate(const Json& config) {
  auto context = get_context();
  auto shard = get_dataset_shard("train");
  Checkpoint from = get_checkpoint();
  std::string files = context.run_folder + "/mine", fate = config.at("fate");
  fs::create_directories(files);
  int64_t rows = from ? from.metrics().at("rows").get<int64_t>() : 0;
  for (int64_t epoch = shard.epoch(); epoch < 3; ++epoch) {
    for (auto& batch : shard.iter_batches({.batch_size = 10})) rows += batch->num_rows();
    if (epoch == 1 && context.attempt == 0 && fate == "dies") ::raise(SIGKILL);
    if (epoch == 1 && context.attempt == 0 && fate != "fine") wait_for_ever(config);
    std::ofstream(files + "/model") << "weights " << epoch;
    report({{"rows", rows}, {"id", config.at("id")}}, files);
  }
}

struct Descendant {
  pid_t pid;
  std::string name;
};

// Processes below this one.
std::vector<Descendant> descendants() {
  std::map<pid_t, std::vector<Descendant>> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (!std::isdigit(entry.path().filename().string()[0])) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text(std::istreambuf_iterator<char>(file), {});
    size_t begin = text.find('('), end = text.rfind(") ");
    if (end == std::string::npos || text[end + 2] == 'Z') continue;
    pid_t parent = std::stoi(text.substr(end + 4));
    children[parent].push_back({std::stoi(text), text.substr(begin + 1, end - begin - 1)});
  }
  std::vector<Descendant> found = children[::getpid()];
  for (size_t i = 0; i < found.size(); ++i) {
    auto& more = children[found[i].pid];
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

TEST(ConcurrentRunsTest, TenRunsWithKillsStopsAndCtrlCEndAsEachShould) {
  TemporaryFolder storage;
  auto make = [&](int id, const std::string& fate) {
    Training training = one_of_many(meet_fate, storage.path(), id);
    training.config["fate"] = fate;
    training.datasets = {{"train", data::range(100)}};
    return training;
  };
  { RunHandle(make(100, "fine")).result(); }  // what is made once
  int descriptors = open_descriptors(), threads = threads_of_this_process();
  size_t processes = descendants().size();
  {
    std::vector<RunHandle> runs;
    for (int id = 0; id < 10; ++id) runs.emplace_back(make(id, kFates[static_cast<size_t>(id)]));
    for (int id = 6; id < 10; ++id) {
      ASSERT_TRUE(eventually([&] { return has_begun(storage, id); })) << id;
    }
    int killed = 0;
    for (const Descendant& each : descendants()) {
      if (!each.name.starts_with("run6/data")) continue;
      ::kill(each.pid, SIGKILL);
      ++killed;
    }
    EXPECT_EQ(killed, 1) << "the reader's process has the run in its name";
    for (size_t id : {7, 8}) runs[id].stop();
    for (size_t id : {7, 8}) {
      EXPECT_EQ(error_of([&] { runs[id].result(); }).kind(), ErrorKind::kCancelled);
    }
    for (size_t id = 0; id < 7; ++id) {
      Result result = runs[id].result();
      EXPECT_EQ(result.metrics.at("id"), id);
      EXPECT_EQ(result.metrics.at("rows"), 300) << id;
      EXPECT_EQ(result.metrics_history.size(), 3u) << id;
    }
    EXPECT_FALSE(runs[9].done());
    ::kill(::getpid(), SIGINT);
    EXPECT_EQ(error_of([&] { runs[9].result(); }).kind(), ErrorKind::kCancelled);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }));
  EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= threads; }));
  EXPECT_TRUE(eventually([&] { return descendants().size() <= processes; }));
}

// Leaves a file for each thread of the data reader that calls it.
data::BatchPtr note_thread(const data::BatchPtr& batch, const std::string& folder) {
  std::ofstream(str(folder, "/", ::gettid())) << "called";
  std::this_thread::sleep_for(5ms);  // a thread that waits for work gets some meanwhile
  return batch;
}

TEST(ConcurrentRunsTest, DataReadersShareTheProcessors) {
  TemporaryFolder storage;
  data::ParquetFolder files;
  auto rows = data::read_parquet(files.write_rows("rows.parquet", 0, 400, 10));
  auto threads_of = [&](int id) {
    std::string folder = str(storage.path(), "/threads", id);
    fs::create_directory(folder);
    Training training = one_of_many(meet_fate, storage.path(), id);
    training.config["fate"] = "fine";
    training.datasets = {{"train", rows.map_batches(note_thread, folder)}};
    EXPECT_EQ(RunHandle(training).result().metrics.at("rows"), 1200);
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  };
  // Each of the three epochs has threads of its own.
  EXPECT_GT(threads_of(1), 3) << "alone on two processors";
  RunHandle other(one_of_many(wait_for_ever, storage.path(), 2));
  ASSERT_TRUE(eventually([&] { return has_begun(storage, 2); }));
  EXPECT_EQ(threads_of(3), 3) << "one processor for each of two runs";
}

// One pass over its data; and, when it is told to go on, three more.
void pass_once_and_thrice(const Json&) {
  auto shard = get_dataset_shard("train");
  std::string folder = get_context().run_folder;
  for (int pass = 0; pass < 4; ++pass) {
    for (auto& batch : shard.iter_batches({.batch_size = 10})) (void)batch;
    std::ofstream(folder + "/begun") << "yes";
    eventually([&] { return fs::exists(folder + "/goes_on"); });
  }
}

TEST(ConcurrentRunsTest, TheDataReaderOfARunThatIsLeftAloneGetsAllProcessors) {
  TemporaryFolder storage;
  data::ParquetFolder files;
  RunHandle other(one_of_many(wait_for_ever, storage.path(), 1));
  ASSERT_TRUE(eventually([&] { return has_begun(storage, 1); }));
  std::string folder = storage / "threads";
  fs::create_directory(folder);
  auto threads = [&] {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  };
  Training training = one_of_many(pass_once_and_thrice, storage.path(), 2);
  auto rows = data::read_parquet(files.write_rows("rows.parquet", 0, 400, 10));
  training.datasets = {{"train", rows.map_batches(note_thread, folder)}};
  RunHandle run(training);
  ASSERT_TRUE(eventually([&] { return has_begun(storage, 2); }));
  EXPECT_EQ(threads(), 1);
  other.stop();
  EXPECT_EQ(error_of([&] { other.result(); }).kind(), ErrorKind::kCancelled);
  std::ofstream(storage / "run2/goes_on") << "yes";
  run.result();
  EXPECT_GT(threads(), 1 + 3) << "each pass has threads of its own";
}

TEST(ConcurrentRunsTest, OneIsStoppedAndTheOthersGoOn) {
  TemporaryFolder storage;
  RunHandle stopped(one_of_many(wait_for_ever, storage.path(), 1));
  RunHandle other(one_of_many(report_thrice, storage.path(), 2));
  EXPECT_FALSE(stopped.done());
  ASSERT_TRUE(eventually([&] { return has_begun(storage, 1); }));
  stopped.stop();
  Error error = error_of([&] { stopped.result(); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(), HasSubstr("restore"));
  EXPECT_EQ(other.result().metrics.at("n"), 2);
  stopped.stop();  // has no effect any more
}

TEST(ConcurrentRunsTest, AHandleThatGoesEndsItsRun) {
  TemporaryFolder storage;
  {
    RunHandle run(one_of_many(wait_for_ever, storage.path(), 1));
    ASSERT_TRUE(eventually([&] { return has_begun(storage, 1); }));
  }
  EXPECT_EQ(RunHandle(one_of_many(report_thrice, storage.path(), 2)).result().metrics.at("n"), 2);
}

TEST(ConcurrentRunsTest, CtrlCEndsAllAndIsTheProgramsAgainAfterwards) {
  TemporaryFolder storage;
  std::vector<RunHandle> runs;
  for (int id = 0; id < 3; ++id) {
    runs.emplace_back(one_of_many(wait_for_ever, storage.path(), id));
  }
  ASSERT_TRUE(eventually(
      [&] { return has_begun(storage, 0) && has_begun(storage, 1) && has_begun(storage, 2); }));
  ::kill(::getpid(), SIGINT);
  for (auto& run : runs) {
    EXPECT_EQ(error_of([&] { run.result(); }).kind(), ErrorKind::kCancelled);
  }
  EXPECT_TRUE(eventually([] {
    struct sigaction now {};
    ::sigaction(SIGINT, nullptr, &now);
    return now.sa_handler == SIG_DFL;
  }));
}

std::string marker(const std::string& storage, int id) { return str(storage, "/shown", id); }

// In the driver, once the report's line is shown.
struct MarksReports : Callback {
  Decision on_report(const RunInfo& run, const ReportRecord&) override {
    std::ofstream(marker(fs::path(run.path).parent_path(), run.train_loop_config.at("id")))
        << "shown";
    return Decision::go_on();
  }
};

// Ends when both runs have shown their first report.
void say_something(const Json& config) {
  std::string storage = fs::path(get_context().run_folder).parent_path();
  std::cout << "the output of " << config.at("id") << std::endl;
  report({{"n", 0}});
  eventually([&] { return fs::exists(marker(storage, 1)) && fs::exists(marker(storage, 2)); });
}

TEST(ConcurrentRunsTest, TheirLinesSayWhichRunTheyAreOf) {
  TemporaryFolder storage;
  testing::internal::CaptureStderr();
  {
    Training a = one_of_many(say_something, storage.path(), 1);
    Training b = one_of_many(say_something, storage.path(), 2);
    a.run.verbose = b.run.verbose = true;
    a.run.callbacks = {std::make_shared<MarksReports>()};
    b.run.callbacks = a.run.callbacks;
    RunHandle first(a);
    ASSERT_TRUE(eventually([&] { return fs::exists(marker(storage.path(), 1)); }));
    RunHandle second(b);
    first.result();
    second.result();
  }
  { RunHandle(one_of_many(report_thrice, storage.path(), 4)).result(); }
  std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, HasSubstr("(rank-0) the output of 1"));  // it was the only run then
  EXPECT_THAT(shown, HasSubstr("(run2/rank-0) the output of 2"));
  EXPECT_THAT(shown, HasSubstr("manta: run2: report 0"));
  EXPECT_TRUE(fs::exists(storage / "run2/logs/rank-0.log"));
}

}  // namespace
}  // namespace manta::train
