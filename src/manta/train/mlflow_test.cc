// MLflow: against a real `mlflow server`, and against servers that are down, slow or send nonsense.

#include "manta/train/mlflow.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/io/http_client_internal.h"
#include "manta/io/scripted_server_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/mlflow_client_internal.h"
#include "manta/train/python_internal.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class MlflowServer {
 public:
  MlflowServer() : process_({MANTA_TRACKERS_PYTHON, MANTA_MLFLOW_SERVER, folder_.path()}) {}
  std::string url() const { return "http://127.0.0.1:" + process_.line(); }
  Json get(const std::string& path) const {
    return Json::parse(HttpClient(url()).get("/api/2.0/mlflow/" + path).body);
  }
  // The only run of the experiment.
  Json run_of(const std::string& experiment) const {
    Json found = get("experiments/get-by-name?experiment_name=" + experiment);
    std::string body = Json{{"experiment_ids", {found["experiment"]["experiment_id"]}}}.dump();
    Json runs = Json::parse(HttpClient(url() + "/api/2.0/mlflow/runs/search")
                                .post(body, "Content-Type: application/json\r\n")
                                .body);
    EXPECT_EQ(runs["runs"].size(), 1u) << runs.dump();
    return runs["runs"].at(0);
  }
  std::string artifacts() const { return folder_ / "artifacts"; }

 private:
  TemporaryFolder folder_;
  HelperProcess process_;
};

std::map<std::string, Json> pairs_in(const Json& list) {
  std::map<std::string, Json> all;
  for (const Json& each : list) all[each.at("key")] = each.at("value");
  return all;
}

// Waits until `count` reports are committed.
void wait_for_reports(int count) {
  Deadline deadline = Deadline::after(std::chrono::seconds(30));
  for (int found = 0; found < count && !deadline.passed();) {
    std::ifstream in(get_context().run_folder + "/result.json");
    found = static_cast<int>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
}

void mlflow_loop(const Json& config) {
  Checkpoint from = get_checkpoint();
  std::string files = get_context().run_folder + "/mine";
  std::filesystem::create_directories(files + "/sub");
  std::ofstream(files + "/sub/state file") << "weights";
  for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < 5; ++n) {
    if (config.value("die_at", -1) == n && get_context().attempt < config.value("deaths", 1)) {
      wait_for_reports(n);
      ::raise(SIGKILL);
    }
    Json metrics = {{"n", n}, {"loss", 1.0 / (n + 1)}, {"valid", {{"auc@1", 0.5 + n}}}};
    if (n == 1) metrics["odd"] = std::nan("");
    // Reports without a checkpoint are made again after a restart.
    n % 2 == 0 ? train::report(metrics, files) : train::report(metrics);
  }
}

TEST(MlflowTest, OneRunHasEverythingAlsoAcrossARestoreAndItsModelIsRegistered) {
  MlflowServer server;
  TemporaryFolder storage;
  auto tracker = std::make_shared<MLflowLoggerCallback>(
      MLflowLoggerOptions{.tracking_uri = server.url(),
                          .experiment_name = "train_experiment",
                          .tags = {{"team", "blue"}},
                          .save_artifact = true,
                          .timeout = std::chrono::seconds(50)});
  Training training =
      test_training(storage.path(), mlflow_loop,
                    {{"die_at", 4}, {"optimizer", {{"lr", 0.1}, {"betas", {1, 2}}}}});
  training.run.callbacks = {tracker};
  message_of([&] { run_training(training); });
  Json run = server.run_of("train_experiment");
  EXPECT_EQ(run["info"]["status"], "FAILED");
  EXPECT_EQ(run["info"]["run_name"], "toy");
  TrainLoop loop = mlflow_loop;
  testing::internal::CaptureStderr();
  Training rest = restore_training(
      storage / "toy", "ToyTrainer",
      {.config =
           Json{{"die_at", 4}, {"deaths", 2}, {"optimizer", {{"lr", 0.2}, {"betas", {1, 2}}}}}});
  testing::internal::GetCapturedStderr();
  rest.loop = loop.function();
  rest.run.callbacks = {tracker};
  rest.run.failure_config.max_failures = 1;
  Result result = run_training(rest);
  EXPECT_EQ(tracker->lost(), 0u);

  run = server.run_of("train_experiment");
  EXPECT_EQ(run["info"]["status"], "FINISHED");
  auto parameters = pairs_in(run["data"]["params"]), tags = pairs_in(run["data"]["tags"]);
  EXPECT_EQ(parameters["optimizer/lr"], "0.1");
  EXPECT_EQ(parameters["optimizer/betas/1"], "2");
  EXPECT_EQ(parameters["num_workers"], "1");
  EXPECT_EQ(tags["changed.optimizer/lr"], "0.2");
  EXPECT_EQ(tags["team"], "blue");
  EXPECT_THAT(tags["failure"].get<std::string>(), HasSubstr("SIGKILL"));
  std::string id = run["info"]["run_id"];
  Json history = server.get("metrics/get-history?run_id=" + id + "&metric_key=n");
  std::vector<int> steps;
  for (const Json& metric : history["metrics"]) {
    EXPECT_EQ(metric["value"], metric["step"]);
    steps.push_back(metric["step"]);
  }
  // Report 3 was made three times.
  std::sort(steps.begin(), steps.end());
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(
      server.get("metrics/get-history?run_id=" + id + "&metric_key=valid/auc_1")["metrics"].size(),
      5u);
  EXPECT_EQ(server.get("metrics/get-history?run_id=" + id + "&metric_key=odd")["metrics"].size(),
            1u);
  std::string place = str(server.artifacts(), "/", run["info"]["experiment_id"].get<std::string>(),
                          "/", id, "/artifacts");
  EXPECT_EQ(read_text(place + "/checkpoint/sub/state file"), "weights");
  EXPECT_EQ(read_text(place + "/progress.csv"), read_text(storage / "toy/progress.csv"));

  RegisteredModel model = register_model(result.checkpoint, "taxi", {.description = "the best"});
  EXPECT_EQ(model.version, "1");
  EXPECT_EQ(model.run_id, id);
  EXPECT_EQ(register_model(result.checkpoint, "taxi").version, "2");
  Json version = server.get("model-versions/get?name=taxi&version=1")["model_version"];
  EXPECT_EQ(version["source"], model.source);
  EXPECT_EQ(version["run_id"], id);
  EXPECT_EQ(version["description"], "the best");
  EXPECT_EQ(Checkpoint::from_directory(str(place, "/models/taxi/checkpoint_000004")).files(),
            result.checkpoint.files());
  EXPECT_THAT(message_of([&] { register_model(result.checkpoint, "taxi", {.run_id = "nobody"}); }),
              HasSubstr("nobody"));
}

// Empty texts, names that MLflow does not tell apart, and a server whose first answers get lost.
TEST(MlflowTest, OneRunIsMadeThoughAnswersAreLostAndNamesClash) {
  MlflowServer server;
  std::atomic<int> created{0};
  ScriptedServer proxy([&](const std::string& request) -> std::string {
    HttpClient client(server.url());
    client.send(request);
    auto answer = client.receive();
    if (request.find("/runs/create ") != std::string::npos && created++ == 0) return "close:";
    return http_answer(answer.status, answer.body);
  });
  TemporaryFolder storage;
  auto tracker = std::make_shared<MLflowLoggerCallback>(
      MLflowLoggerOptions{.tracking_uri = proxy.url(),
                          .experiment_name = "lossy",
                          .timeout = std::chrono::seconds(50),
                          .tracker = {.patience_at_end = std::chrono::seconds(50)}});
  auto loop = [](const Json& config) {
    Checkpoint from = get_checkpoint();
    for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < 2; ++n) {
      train::report({{"n", n}, {"x@1", 1 + n}, {"x#1", 10 + n}, {"x_1", 100 + n}},
                    Checkpoint::from_dict({.values = {{"n", n}}}));
      if (config.at("fails").get<bool>()) throw std::runtime_error("on purpose");
    }
  };
  Json config = {{"fails", true}, {"empty", ""}, {"a@1", "one"}, {"a#1", "two"}};
  Training training = test_training(storage.path(), loop, config);
  training.run.callbacks = {tracker};
  testing::internal::CaptureStderr();
  message_of([&] { run_training(training); });
  config["fails"] = false;
  Training rest = restore_training(storage / "toy", "ToyTrainer", {.config = config});
  TrainLoop again = loop;
  rest.loop = again.function();
  rest.run.callbacks = {tracker};
  run_training(rest);
  EXPECT_EQ(tracker->lost(), 0u);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("MLflow has the same name for 'x#1' and 'x@1'"));
  EXPECT_EQ(created, 1);  // it looked for the first run before it asked for another

  Json run = server.run_of("lossy");  // the only one
  EXPECT_EQ(run["info"]["status"], "FINISHED");
  auto parameters = pairs_in(run["data"]["params"]), metrics = pairs_in(run["data"]["metrics"]);
  EXPECT_EQ(parameters.at("empty"), "");
  std::map<std::string, int> clashing;
  for (const auto& [key, value] : metrics)
    if (key.starts_with("x_1")) clashing[key] = value;
  ASSERT_EQ(clashing.size(), 3u);
  EXPECT_EQ(clashing.at("x_1"), 11);  // 'x#1' comes first
  EXPECT_EQ(std::next(clashing.begin())->second + std::next(clashing.begin(), 2)->second, 103);
  int others = 0;
  for (const auto& [key, value] : parameters) others += key.starts_with("a_1");
  EXPECT_EQ(others, 2);
}

// The server takes names as paths, and refuses those that could be written in another way.
TEST(MlflowTest, NamesThatAreNoPathsArrive) {
  MlflowServer server;
  TemporaryFolder storage;
  auto tracker = std::make_shared<MLflowLoggerCallback>(
      MLflowLoggerOptions{.tracking_uri = server.url(),
                          .experiment_name = "paths",
                          .timeout = std::chrono::seconds(50),
                          .tracker = {.patience_at_end = std::chrono::seconds(50)}});
  auto loop = [] {
    train::report({{"a//b", 1},
                   {"loss/", 2},
                   {"/x", 3},
                   {"./y", 4},
                   {"a/../b", 5},
                   {"../z", 6},
                   {"..", 7},
                   {"/", 8},
                   {"e/.", 9}});
  };
  Training training =
      test_training(storage.path(), loop, {{"files", {{"/data/a", 1}, {"../b", 2}}}});
  training.run.callbacks = {tracker};
  run_training(training);
  EXPECT_EQ(tracker->lost(), 0u);
  Json run = server.run_of("paths");
  auto metrics = pairs_in(run["data"]["metrics"]), parameters = pairs_in(run["data"]["params"]);
  std::map<std::string, Json> expected = {{"a/b", 1}, {"loss", 2},   {"x", 3},
                                          {"y", 4},   {"a/__/b", 5}, {"__/z", 6},
                                          {"__", 7},  {"_", 8},      {"e", 9}};
  for (const auto& [name, value] : expected) EXPECT_EQ(metrics[name], value) << name;
  EXPECT_EQ(parameters["files/data/a"], "1");
  EXPECT_EQ(parameters["files/__/b"], "2");
}

// The warnings of a run while a server behaves in this way.
std::string warnings_with(const std::string& url, milliseconds timeout) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), mlflow_loop);
  auto tracker = std::make_shared<MLflowLoggerCallback>(MLflowLoggerOptions{
      .tracking_uri = url, .timeout = timeout, .tracker = {.patience_at_end = milliseconds(1)}});
  training.run.callbacks = {tracker};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_training(training).metrics_history.size(), 5u);
  EXPECT_GT(tracker->lost(), 0u);
  tracker.reset();
  training.run.callbacks.clear();
  return testing::internal::GetCapturedStderr();
}

TEST(MlflowTest, AServerThatIsDownCostsAWarning) {
  std::string url = ScriptedServer([](const std::string&) { return ""; }).url();
  EXPECT_THAT(warnings_with(url, milliseconds(1000)),
              AllOf(HasSubstr("MLflowLoggerCallback of run 'toy'"), HasSubstr("Connection refused"),
                    HasSubstr("did not arrive")));
}

TEST(MlflowTest, AServerThatNeverAnswersCostsAWarning) {
  ScriptedServer server([](const std::string&) { return ""; });
  EXPECT_THAT(warnings_with(server.url(), milliseconds(50)),
              AnyOf(HasSubstr("did not answer within"), HasSubstr("it had not taken")));
}

TEST(MlflowTest, NonsenseIsRefusedAndSaid) {
  for (const auto& [answer, expected] : std::vector<std::pair<std::string, std::string>>{
           {"SSH-2.0\r\n\r\n", "does not speak HTTP"},
           {http_answer(200, "<html>hello</html>"), "expected JSON"},
           {http_answer(200, "[]"), "is no object"},
           {http_answer(200, "{}"), "has no experiment"},
           {http_answer(200, R"({"experiment": {"experiment_id": {}}})"), "experiment_id is {}"},
           {http_answer(404, "nothing here"), "status 404"},
           {http_answer(500, "out of order"), "status 500"}}) {
    ScriptedServer server([&answer = answer](const std::string&) { return answer; });
    MlflowClient client(server.url() + "/", std::chrono::seconds(50));
    EXPECT_THAT(message_of([&] { client.experiment("x"); }), HasSubstr(expected));
  }
}

TEST(MlflowTest, OptionsThatMakeNoSenseAreRefused) {
  for (const char* url : {"https://host", "databricks", ""}) {
    EXPECT_THAT(message_of([&] { MLflowLoggerCallback callback({.tracking_uri = url}); }),
                HasSubstr(str("'", url, "'")));
  }
  EXPECT_THAT(message_of([] { MLflowLoggerCallback callback({.timeout = milliseconds(0)}); }),
              HasSubstr("timeout"));
  EXPECT_THAT(message_of([] { register_model({}, "x"); }), HasSubstr("no checkpoint"));
  EXPECT_EQ(mlflow_key("a@b/c d\n"), "a_b/c d_");
}

}  // namespace
}  // namespace manta::train
