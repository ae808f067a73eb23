#include "manta/torch/torch_profiler.h"

#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/types.h>

#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/json.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/torch/tensor_bytes.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_profiler_internal.h"
#include "manta/torch/torch_trainer.h"
#include "manta/train/session.h"

namespace manta {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

// How many multiplications of matrices a trace has.
int64_t products_in(const std::string& path) {
  std::ifstream file(path);
  Json trace = Json::parse(file);
  int64_t count = 0;
  for (const Json& event : trace.at("traceEvents"))
    count += event.value("name", "") == "aten::mm" && event.value("ph", "") == "X";
  return count;
}

TEST(TorchProfilerTest, RecordsTheStepsThatWereChosen) {
  TemporaryFolder folder;
  TorchProfiler profiler({.first_step = 2, .num_steps = 3, .folder = folder / "traces"});
  torch::Tensor a = torch::ones({8, 8});
  for (int step = 0; step < 10; ++step) {
    torch::mm(a, a);
    profiler.step();
  }
  EXPECT_EQ(profiler.path(), folder / "traces/rank-0.steps-2-4.json");
  EXPECT_EQ(products_in(profiler.path()), 3);
}

TEST(TorchProfilerTest, WritesWhatThereIsAndWarnsIfItCannot) {
  TemporaryFolder folder;
  {
    TorchProfiler profiler({.first_step = 0, .num_steps = 100, .folder = folder.path()});
    torch::Tensor a = torch::ones({8, 8});
    torch::mm(a, a);
    testing::internal::CaptureStderr();
    TorchProfiler second({.first_step = 0, .folder = folder.path()});
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("another one records"));
  }
  EXPECT_EQ(products_in(folder / "rank-0.steps-0-0.json"), 1);
  std::ofstream(folder / "file") << "no folder";
  testing::internal::CaptureStderr();
  { TorchProfiler profiler({.first_step = 0, .folder = folder / "file/traces"}); }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("file/traces"));
  EXPECT_THAT(message_of([] { TorchProfiler profiler; }), HasSubstr("give a folder"));
  EXPECT_THAT(message_of([] { TorchProfiler profiler({.num_steps = 0, .folder = "x"}); }),
              HasSubstr("was 0"));
}

// PyTorch writes the second of these names, and renames it.
TEST(TorchProfilerTest, LinksAreNotWrittenThrough) {
  TemporaryFolder folder;
  std::ofstream(folder / "victim") << "precious";
  for (const char* name : {"rank-0.steps-0-0.json", "rank-0.steps-0-0.json.tmp"})
    std::filesystem::create_symlink(folder / "victim", folder / name);
  {
    TorchProfiler profiler({.first_step = 0, .num_steps = 1, .folder = folder.path()});
    torch::Tensor a = torch::ones({8, 8});
    torch::mm(a, a);
  }
  EXPECT_EQ(products_in(folder / "rank-0.steps-0-0.json"), 1);
  std::ifstream victim(folder / "victim");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(victim), {}), "precious");
  EXPECT_THAT(folder.entries(),
              UnorderedElementsAre("victim", "rank-0.steps-0-0.json", "rank-0.steps-0-0.json.tmp"));
}

TEST(TorchProfilerTest, ATraceThatCannotBeSavedLeavesNothing) {
  namespace profiling = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  TemporaryFolder folder;
  torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiling::prepareProfiler(config, {ActivityType::CPU});
  profiling::enableProfiler(config, {ActivityType::CPU});
  auto trace = profiling::disableProfiler();
  internal::save_trace(*trace, folder / "trace");
  // PyTorch refuses to save one twice.
  EXPECT_ANY_THROW(internal::save_trace(*trace, folder / "again"));
  EXPECT_THAT(folder.entries(), UnorderedElementsAre("trace"));
}

TEST(TorchProfilerTest, EachWorkerHasATrace) {
  TemporaryFolder storage;
  TorchTrainer trainer({.train_loop_per_worker =
                            [] {
                              TorchProfiler profiler({.first_step = 1, .num_steps = 1});
                              torch::Tensor a = torch::ones({8, 8});
                              for (int step = 0; step < 3; ++step) {
                                torch::mm(a, a);
                                profiler.step();
                              }
                              train::report({{"done", true}});
                            },
                        .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.1}},
                        .run_config = {.name = "r", .storage_path = storage.path(), .verbose = 0}});
  trainer.fit();
  for (int rank : {0, 1})
    EXPECT_EQ(
        products_in(manta::str(storage / "r/profile/rank-", rank, ".attempt-0.steps-1-1.json")), 1);
}

TEST(TensorBytesTest, TensorsComeBack) {
  for (const torch::Tensor& tensor :
       {torch::arange(6, torch::kFloat32).reshape({2, 3}).t(), torch::ones({}, torch::kInt64),
        torch::zeros({0, 4}, torch::kBool), torch::ones({3}, torch::kBFloat16)}) {
    torch::Tensor back = to_tensor(tensor_bytes(tensor));
    EXPECT_EQ(back.dtype(), tensor.dtype());
    EXPECT_TRUE(torch::equal(back, tensor));
  }
  EXPECT_THAT(message_of([] { tensor_bytes(torch::zeros({1}, torch::kComplexFloat)); }),
              HasSubstr("complex"));
  EXPECT_THAT(message_of([] { to_tensor({"F32", {2}, "1234"}); }), HasSubstr("4 bytes"));
}

struct HeadedNetImpl : torch::nn::Module {
  explicit HeadedNetImpl(int64_t classes, const std::string& head)
      : body(register_module("body", torch::nn::Linear(2, 3))),
        last(register_module(head, torch::nn::Linear(3, classes))) {}
  torch::nn::Linear body, last;
};
TORCH_MODULE(HeadedNet);

TEST(TorchPartialLoadTest, LoadsWhatFitsAndSaysWhatDoesNot) {
  TemporaryFolder folder;
  HeadedNet trained(4, "head");
  std::shared_ptr<CheckpointSource> source = TorchCheckpoint::from_model(trained);
  source->stage();
  CheckpointFolder files(folder / "c");
  source->write(files);
  Json manifest = {
      {"version", 1}, {"report", 0},        {"attempt", 0},         {"world_size", 1},
      {"time", 0},    {"metrics", nullptr}, {"positions", nullptr}, {"files", Json::array()}};
  for (const CheckpointFile& file : files.files())
    manifest["files"].push_back(
        {{"name", file.name}, {"size", file.size}, {"checksum", file.checksum}});
  std::ofstream(folder / "c/manifest.json") << manifest;
  TorchCheckpoint saved(Checkpoint::from_directory(folder / "c"));

  HeadedNet wider(7, "head"), renamed(4, "new_head"), same(4, "head");
  EXPECT_THAT(message_of([&] { saved.load_model(wider); }), HasSubstr("head.weight"));
  LoadReport report = saved.load_model(wider, {.strict = false});
  EXPECT_THAT(report.loaded, UnorderedElementsAre("body.weight", "body.bias"));
  EXPECT_THAT(report.other_shape, UnorderedElementsAre("head.weight", "head.bias"));
  EXPECT_TRUE(torch::equal(wider->body->weight, trained->body->weight));
  report = saved.load_model("model", renamed, {.strict = false});
  EXPECT_THAT(report.missing, UnorderedElementsAre("new_head.weight", "new_head.bias"));
  EXPECT_THAT(report.unexpected, UnorderedElementsAre("head.weight", "head.bias"));
  EXPECT_FALSE(report.complete());
  EXPECT_TRUE(saved.load_model(same).complete());
  torch::nn::Linear other(1, 1);
  EXPECT_THAT(message_of([&] { saved.load_model(other, {.strict = false}); }),
              HasSubstr("do not fit"));
}

}  // namespace
}  // namespace manta
