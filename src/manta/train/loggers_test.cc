// Trackers that write files, over real runs; the tensorboard package reads back TensorBoard's
// files.

#include "manta/train/loggers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/sources.h"
#include "manta/io/crc32c_internal.h"
#include "manta/train/appended_file_internal.h"
#include "manta/train/event_file_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/metric.h"
#include "manta/train/python_internal.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Five reports of numbers, a histogram and a text, with a checkpoint at the even ones; dies before
// config["die_at"] in the first attempt.
void logged_loop(const Json& config) {
  Context context = get_context();
  Checkpoint from = get_checkpoint();
  std::string files = context.run_folder + "/mine";
  std::filesystem::create_directories(files);
  std::ofstream(files + "/state") << "state";
  for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < 5; ++n) {
    if (config.value("die_at", -1) == n && context.attempt == 0) ::raise(SIGKILL);
    Json metrics = {{"n", n},
                    {"loss", 1.0 / (n + 1)},
                    {"attempt", context.attempt},
                    {"valid", {{"auc", 0.5 + n}}},
                    {"weights", train::histogram(std::vector<double>{0, 1, 1, 3.0 + n})},
                    {"sample", train::text("step " + std::to_string(n))}};
    if (n == 3) metrics["late"] = std::nan("");
    if (n % 2 == 0) {
      train::report(metrics, files);
    } else {
      train::report(metrics);
    }
  }
}

Json logged_config() {
  return {{"lr", 0.1}, {"layers", {64, 32}}, {"optimizer", {{"name", "adam"}, {"nesterov", true}}}};
}

Json events_in(const std::string& folder) {
  return Json::parse(output_of({MANTA_TRACKERS_PYTHON, MANTA_EVENT_READER, folder}));
}

std::vector<Json> json_lines_in(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<std::string> names_of(const std::vector<Json>& lines) {
  std::vector<std::string> names;
  for (const Json& line : lines) names.push_back(line.at("event"));
  return names;
}

TEST(LoggersTest, WriteWhatARunReported) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), logged_loop, logged_config());
  training.run.callbacks = {
      std::make_shared<TBXLoggerCallback>(), std::make_shared<JsonLoggerCallback>(),
      std::make_shared<CSVLoggerCallback>(FileLoggerOptions{.path = storage / "tables/mine.csv"})};
  run_training(training);
  Json events = events_in(storage / "toy/tensorboard");
  EXPECT_EQ(events["scalars"]["n"], Json::parse("[[0,0.0],[1,1.0],[2,2.0],[3,3.0],[4,4.0]]"));
  EXPECT_EQ(events["scalars"]["valid/auc"][4], Json::parse("[4, 4.5]"));
  EXPECT_EQ(events["scalars"]["time_total_s"].size(), 5u);
  EXPECT_TRUE(events["scalars"]["late"].size() == 1 && events["scalars"]["late"][0][0] == 3);
  EXPECT_EQ(events["texts"]["sample"][4], Json::parse("[4, \"step 4\"]"));
  EXPECT_THAT(events["texts"]["train_loop_config"][0][1].get<std::string>(),
              HasSubstr("\"lr\": 0.1"));
  Json histogram = events["histograms"]["weights"][4][1];
  EXPECT_EQ(histogram["min"], 0);
  EXPECT_EQ(histogram["max"], 7);
  EXPECT_EQ(histogram["num"], 4);
  EXPECT_EQ(histogram["counts"].size(), 30u);
  EXPECT_EQ(events["hparams"], Json::parse(R"({"lr": 0.1, "layers/0": 64.0, "layers/1": 32.0,
      "num_workers": 1.0, "optimizer/name": "adam", "optimizer/nesterov": true})"));
  EXPECT_EQ(events["status"], 1);  // success

  auto lines = json_lines_in(storage / "toy/events.jsonl");
  EXPECT_THAT(names_of(lines),
              ElementsAre("run_start", "checkpoint", "report", "report", "checkpoint", "report",
                          "report", "checkpoint", "report", "run_end"));
  EXPECT_EQ(lines[2]["metrics"]["valid"]["auc"], 0.5);
  EXPECT_EQ(lines.back()["outcome"], "finished");

  std::string table = read_text(storage / "tables/mine.csv");
  EXPECT_THAT(table,
              AllOf(HasSubstr("valid/auc"), HasSubstr("late"), testing::Not(HasSubstr("weights"))));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 6);
}

TEST(LoggersTest, ARestartReplacesWhatIsMadeAgain) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), logged_loop, {{"die_at", 4}});
  training.run.failure_config.max_failures = 1;
  training.run.callbacks = {std::make_shared<TBXLoggerCallback>(),
                            std::make_shared<CSVLoggerCallback>(),
                            std::make_shared<JsonLoggerCallback>()};
  run_training(training);
  Json events = events_in(storage / "toy/tensorboard");
  EXPECT_EQ(events["scalars"]["n"], Json::parse("[[0,0.0],[1,1.0],[2,2.0],[3,3.0],[4,4.0]]"));
  EXPECT_EQ(events["scalars"]["attempt"][4], Json::parse("[4, 1.0]"));
  std::string table = read_text(storage / "toy/reports.csv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 6);
  EXPECT_THAT(names_of(json_lines_in(storage / "toy/events.jsonl")), Contains("failure"));
}

TEST(LoggersTest, ARestoredRunGoesOnInTheSameFolder) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), logged_loop, {{"die_at", 4}});
  training.run.callbacks = {std::make_shared<TBXLoggerCallback>()};
  message_of([&] { run_training(training); });
  EXPECT_EQ(events_in(storage / "toy/tensorboard")["status"], 2);  // failure
  TrainLoop loop = logged_loop;
  testing::internal::CaptureStderr();
  Training rest = restore_training(storage / "toy", "ToyTrainer", {});
  testing::internal::GetCapturedStderr();
  rest.loop = loop.function();
  rest.run.callbacks = training.run.callbacks;
  run_training(rest);
  Json events = events_in(storage / "toy/tensorboard");
  EXPECT_EQ(events["scalars"]["n"], Json::parse("[[0,0.0],[1,1.0],[2,2.0],[3,3.0],[4,4.0]]"));
  EXPECT_EQ(events["scalars"]["attempt"][4], Json::parse("[4, 1.0]"));
}

// A run folder may have come from elsewhere, with links in the place of trackers' files.
TEST(LoggersTest, LinksInARunFolderAreNotWrittenThrough) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), logged_loop, {{"die_at", 4}});
  message_of([&] { run_training(training); });
  std::filesystem::create_directory(storage / "victims");
  std::ofstream(storage / "victims/file") << "precious";
  std::filesystem::create_directory_symlink(storage / "victims", storage / "toy/tensorboard");
  for (const char* name : {"events.jsonl", "reports.csv"})
    std::filesystem::create_symlink(storage / "victims/file", storage / "toy/" + name);

  testing::internal::CaptureStderr();
  Training rest = restore_training(storage / "toy", "ToyTrainer", {});
  rest.loop = training.loop;
  TrackerOptions impatient{.patience_at_end = std::chrono::milliseconds(1)};
  rest.run.callbacks = {
      std::make_shared<TBXLoggerCallback>(TBXLoggerOptions{.tracker = impatient}),
      std::make_shared<JsonLoggerCallback>(FileLoggerOptions{.tracker = impatient}),
      std::make_shared<CSVLoggerCallback>()};
  EXPECT_EQ(run_training(rest).metrics_history.size(), 5u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("/tensorboard' is a symbolic link"),
                    HasSubstr("/events.jsonl' is a symbolic link")));
  EXPECT_THAT(storage.entries(), Contains("victims"));
  EXPECT_EQ(read_text(storage / "victims/file"), "precious");
  for (const auto& entry : std::filesystem::directory_iterator(storage / "victims"))
    EXPECT_EQ(entry.path().filename(), "file");
  std::string table = read_text(storage / "toy/reports.csv");  // takes the place of the link
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 6);
}

TEST(LoggersTest, AFileWithAnotherNameIsNotAppendedTo) {
  TemporaryFolder folder;
  std::ofstream(folder / "precious") << "precious";
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_hard_link(folder / "precious", folder / "run/events.jsonl");
  AppendedFile file(folder / "run", "events.jsonl");
  Error error = error_of([&] { file.append("line\n"); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("has another name (a hard link)"));
  EXPECT_EQ(read_text(folder / "precious"), "precious");
}

// Two runs at a time would cut off each other's lines.
TEST(LoggersTest, AFileHasOneRunAtATime) {
  TemporaryFolder storage;
  static const Json config;
  static const ScalingConfig scaling;
  static const std::vector<ReportRecord> none;
  RunInfo first{"first", storage / "first", config, scaling, none};
  RunInfo second{"second", storage / "second", config, scaling, none};
  ReportRecord report;
  report.metrics = {{"n", 1}};
  std::string path = storage / "logs/all";
  auto lines = [&] {
    std::string text = std::filesystem::exists(path) ? read_text(path) : "";
    return std::count(text.begin(), text.end(), '\n');
  };
  std::vector<std::shared_ptr<Tracker>> loggers = {
      std::make_shared<JsonLoggerCallback>(FileLoggerOptions{.path = path}),
      std::make_shared<CSVLoggerCallback>(FileLoggerOptions{.path = path})};
  for (const auto& logger : loggers) {
    std::filesystem::remove_all(storage / "logs");
    testing::internal::CaptureStderr();
    logger->on_run_start(first);
    ASSERT_TRUE(eventually([&] { return lines() == 1; }));
    logger->on_run_start(second);
    logger->on_report(second, report);
    logger->on_run_end(second, RunOutcome::kFinished);
    EXPECT_EQ(lines(), 1);
    EXPECT_EQ(logger->lost(), 3u);
    logger->on_report(first, report);
    logger->on_run_end(first, RunOutcome::kFinished);
    EXPECT_GE(lines(), 2);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("of run 'second': '" + path + "' is written for another run"),
                      HasSubstr("a path of its own"), HasSubstr("3 events of the run")));
    // One run after the other may use it.
    logger->on_run_start(second);
    logger->on_run_end(second, RunOutcome::kFinished);
    EXPECT_EQ(logger->lost(), 3u);
  }
}

// TensorBoard would take the files of both for one run that began again.
TEST(LoggersTest, AFolderOfEventFilesHasOneRunAtATime) {
  TemporaryFolder storage;
  static const Json config;
  static const ScalingConfig scaling;
  static const std::vector<ReportRecord> none;
  RunInfo first{"first", storage / "first", config, scaling, none};
  RunInfo second{"second", storage / "second", config, scaling, none};
  std::string logs = storage / "logs";
  auto files = [&] {
    int count = 0;
    std::error_code not_there;
    for (const auto& entry : std::filesystem::directory_iterator(logs, not_there))
      count += entry.path().filename().string().find("tfevents") != std::string::npos;
    return count;
  };
  TBXLoggerCallback logger({.logdir = logs});
  testing::internal::CaptureStderr();
  logger.on_run_start(first);
  ASSERT_TRUE(eventually([&] { return files() == 1; }));
  logger.on_run_start(second);
  logger.on_run_end(second, RunOutcome::kFinished);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(logger.lost(), 2u);
  logger.on_run_end(first, RunOutcome::kFinished);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("of run 'second': '" + logs + "' is written for another run"),
                    HasSubstr("a logdir of its own")));
  // One run after the other may use it, as a restored run does.
  logger.on_run_start(second);
  logger.on_run_end(second, RunOutcome::kFinished);
  EXPECT_EQ(logger.lost(), 2u);
  EXPECT_EQ(files(), 2);
}

TEST(LoggersTest, AFileThatCannotBeWrittenIsAWarning) {
  TemporaryFolder storage;
  std::ofstream(storage / "file") << "no folder";
  Training training = test_training(storage.path(), logged_loop);
  training.run.callbacks = {std::make_shared<TBXLoggerCallback>(
      TBXLoggerOptions{.logdir = storage / "file/logs",
                       .tracker = {.patience_at_end = std::chrono::milliseconds(1)}})};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_training(training).metrics_history.size(), 5u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("TBXLoggerCallback of run 'toy'"), HasSubstr("/file'"),
                    HasSubstr("did not arrive")));
}

void epochs_loop() {
  auto shard = get_dataset_shard("train");
  for (int64_t epoch = shard.epoch(); epoch < 2; ++epoch) {
    for (const auto& batch : shard.iter_batches({.batch_size = 4})) {
      if (!batch || epoch == 1) break;
    }
    train::report({{"epoch", epoch}});
  }
}

class EpochDiary final : public Callback {
 public:
  void on_epoch_start(const RunInfo&, const EpochRecord& epoch) override {
    lines.push_back(str("start ", epoch.dataset, " ", epoch.epoch, " ", epoch.rows));
  }
  void on_epoch_end(const RunInfo&, const EpochRecord& epoch) override {
    lines.push_back(str("end ", epoch.dataset, " ", epoch.epoch, " ", epoch.rows));
    if (throws) throw std::runtime_error("no epochs, please");
  }
  std::vector<std::string> lines;
  bool throws = false;
};

TEST(LoggersTest, EpochsAreHeardOf) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), epochs_loop);
  training.scaling.num_workers = 2;
  training.scaling.resources_per_worker.cpus = 0.1;
  training.datasets = {{"train", data::range(20)}};
  auto diary = std::make_shared<EpochDiary>();
  training.run.callbacks = {diary, std::make_shared<JsonLoggerCallback>()};
  run_training(training);
  // The second epoch is left after its first step, of 4 rows for each of 2 workers.
  EXPECT_THAT(diary->lines,
              ElementsAre("start train 0 0", "end train 0 20", "start train 1 0", "end train 1 8"));
  EXPECT_THAT(names_of(json_lines_in(storage / "toy/events.jsonl")),
              AllOf(Contains("epoch_start"), Contains("epoch_end")));
}

TEST(LoggersTest, AnErrorAtAnEpochFailsTheAttempt) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), epochs_loop);
  training.datasets = {{"train", data::range(20)}};
  auto diary = std::make_shared<EpochDiary>();
  diary->throws = true;
  training.run.callbacks = {diary};
  EXPECT_THAT(message_of([&] { run_training(training); }),
              AllOf(HasSubstr("EpochDiary::on_epoch_end"), HasSubstr("no epochs, please")));
}

TEST(MetricTest, HistogramsCountEveryValueOnce) {
  Json one = histogram(std::vector<float>{2, 2, 2});
  EXPECT_EQ(one["counts"], Json({3}));
  EXPECT_EQ(histogram(std::vector<double>{})["count"], 0);
  Json wide = histogram(std::vector<double>{-1.7e308, 0, 1.7e308, NAN, INFINITY}, 4);
  EXPECT_EQ(wide["counts"], Json({1, 0, 1, 1}));
  EXPECT_EQ(wide["not_finite"], 2);
  EXPECT_THAT(message_of([] { histogram(std::vector<double>{1}, 0); }), HasSubstr("1 to 1000"));
}

}  // namespace
}  // namespace manta::train
