// Runs at an address: drivers that are killed, and models that are used afterwards.

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <manta/manta.h>
#include <manta/xgboost.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/s3_server_internal.h"
#include "manta/io/http_client_internal.h"
#include "manta/io/remote_files_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::HasSubstr;

class RemoteRunTest : public testing::Test {
 protected:
  RemoteRunTest() : old_home_(std::getenv("HOME") ? std::getenv("HOME") : "") { set_home(home_); }
  ~RemoteRunTest() override { ::setenv("HOME", old_home_.c_str(), 1); }
  static void set_home(const TemporaryFolder& home) { ::setenv("HOME", home.path().c_str(), 1); }
  bool has(const std::string& path) const {
    return look_at(*remote_address(server_.address(path))).kind == RemoteEntry::kFile;
  }

  int counted_requests() const {
    std::string counts = server_.tell("/-/counts");
    return std::stoi(counts.substr(counts.find("requests=") + 9));
  }
  // How many drivers the run has had.
  int64_t generation() const {
    auto owner = read_remote(*remote_address(server_.address("runs/job/owner.json")), 1 << 20);
    return Json::parse(owner).at("generation");
  }

  data::S3Server server_;
  TemporaryFolder home_, temporary_;
  const std::string old_home_;
};

TEST_F(RemoteRunTest, AKilledDriversRunGoesOnOnAnotherMachine) {
  std::string program = test_program("remote_job"), run = server_.address("runs/job");
  int64_t batches = 60;
  {
    Program first(program, {"start", server_.address("runs"), std::to_string(batches)},
                  temporary_.path());
    ASSERT_TRUE(eventually([&] { return has("runs/job/checkpoint_000003/manifest.json"); }));
    first.send(SIGKILL);
    first.wait();
  }
  // A machine that has no file of the run.
  TemporaryFolder other;
  set_home(other);
  Program second(program, {"restore", run, "2"}, temporary_.path());
  std::string line = second.read_line();
  EXPECT_EQ(second.wait(), 0) << second.read_errors();
  Json result = Json::parse(line);
  EXPECT_EQ(result.at("path"), run);
  EXPECT_EQ(result.at("begins").size(), static_cast<size_t>(batches));  // each report once
  int64_t begin = result.at("begins").back();
  EXPECT_GE(begin, 4);
  EXPECT_LT(begin, batches);
  EXPECT_EQ(result.at("stored").at("batches"), batches);
  EXPECT_EQ(result.at("stored").at("sum"), batches * 64 * (batches * 64 - 1) / 2);
  EXPECT_FALSE(std::filesystem::exists(other / "manta_results/.remote") &&
               !std::filesystem::is_empty(other / "manta_results/.remote"));
}

// The driver is killed after any number of requests, again and again: the store always has a run
// that can go on.
TEST_F(RemoteRunTest, KilledAtAnyMoment) {
  std::string program = test_program("remote_job"), run = server_.address("runs/job");
  Program first(program, {"start", server_.address("runs"), "40"}, temporary_.path());
  ASSERT_TRUE(eventually([&] { return has("runs/job/checkpoint_000001/manifest.json"); }));
  first.send(SIGKILL);
  first.wait();
  // The first of these requests make the driver the owner.
  int workers = 1;
  for (int requests : {17, 20, 26, 35, 47, 61}) {
    int64_t before = generation();
    int seen = counted_requests();
    Program next(program, {"restore", run, std::to_string(workers)}, temporary_.path());
    ASSERT_TRUE(eventually([&] { return counted_requests() >= seen + requests; }));
    next.send(SIGKILL);
    int status = next.wait();
    EXPECT_TRUE(WIFSIGNALED(status)) << "it had ended before it was killed";
    EXPECT_EQ(generation(), before + 1) << requests << " requests";
    workers = 3 - workers;
  }
  Program last(program, {"restore", run, "1"}, temporary_.path());
  std::string line = last.read_line();
  EXPECT_EQ(last.wait(), 0) << last.read_errors();
  Json result = Json::parse(line);
  EXPECT_EQ(result.at("begins").size(), 40u);
  EXPECT_EQ(result.at("stored").at("sum"), 40 * 64 * (40 * 64 - 1) / 2);
}

TEST_F(RemoteRunTest, AModelOfAResultPredictsAndIsServed) {
  Dataset data =
      data::range(400).with_column("x", col("id") * 0.01).with_column("y", col("id") * 0.02 + 1.0);
  XGBoostTrainer trainer(
      {.params = {{"objective", "reg:squarederror"}},
       .label_column = "y",
       .num_boost_round = 10,
       .datasets = {{"train", data.select_columns({"x", "y"})}},
       .scaling_config = {.num_workers = 2},
       .run_config = {.name = "trees", .storage_path = server_.address("runs"), .verbose = false}});
  Result result = trainer.fit();
  EXPECT_EQ(result.path, server_.address("runs/trees"));
  std::filesystem::remove_all(home_ / "manta_results");
  auto rows = data.select_columns({"x"});
  auto batch = BatchPredictor::from_checkpoint<XGBoostPredictor>(result.checkpoint);
  EXPECT_EQ(batch.predict(rows).count(), 400);

  // A driver that has only the address.
  Result again = XGBoostTrainer::restore(result.path).fit();
  EXPECT_EQ(again.metrics, result.metrics);
  auto predictor = XGBoostPredictor::from_checkpoint(again.checkpoint);
  auto predictions = predictor.predict(rows.to_table()->CombineChunksToBatch().ValueOrDie());
  EXPECT_EQ(predictions->num_rows(), 400);

  // Replicas have the environment in which this program was started, which has no key.
  server_.tell("/-/public");
  serve::start({.http = {.port = 0}});
  auto deployment = PredictorDeployment::options({.name = "trees"});
  deployment.deploy<XGBoostPredictor>(again.checkpoint, {.http_adapter = serve::json_columns});
  EXPECT_THAT(HttpClient(deployment.url()).post(R"({"x":[1.5]})").body,
              HasSubstr("{\"predictions\":["));
  serve::shutdown();
}

}  // namespace
}  // namespace manta
