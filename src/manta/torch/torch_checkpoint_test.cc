#include "manta/torch/torch_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/torch/staging_internal.h"
#include "manta/torch/torch_predictor.h"
#include "manta/train/checkpoint_store_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct SavedNetImpl : torch::nn::Module {
  explicit SavedNetImpl(int64_t width = 8)
      : first(register_module("first", torch::nn::Linear(4, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        last(register_module("last", torch::nn::Linear(width, 2))) {}
  torch::Tensor forward(const torch::Tensor& inputs) {
    return last(torch::relu(norm(first(inputs))));
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear last;
};
TORCH_MODULE(SavedNet);

class TorchCheckpointTest : public testing::Test {
 protected:
  TorchCheckpointTest()
      : folder_(manta::str(testing::TempDir(), "torch-checkpoint-", ::getpid())),
        store_((std::filesystem::create_directories(folder_), folder_), {}) {
    torch::set_num_threads(1);  // small tensors: threads only wait for each other
    torch::manual_seed(1);
  }
  ~TorchCheckpointTest() override { std::filesystem::remove_all(folder_); }

  Checkpoint write(CheckpointSource& source, int rank = 0) {
    CheckpointFolder folder(store_.staging_folder(1, ++index_, rank));
    source.write(folder);
    return store_.commit({.index = index_, .attempt = 1}, {{rank, folder.files()}});
  }
  Checkpoint save(const TorchCheckpoint& checkpoint) {
    std::shared_ptr<CheckpointSource> source = checkpoint;
    source->stage();
    return write(*source);
  }

  std::string folder_;
  train::CheckpointStore store_;
  int64_t index_ = 0;
};

void train(SavedNet& net, torch::optim::Optimizer& optimizer, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    torch::manual_seed(100 + step);
    torch::Tensor inputs = torch::randn({8, 4});
    optimizer.zero_grad();
    torch::mse_loss(net(inputs), inputs.slice(1, 0, 2)).backward();
    optimizer.step();
  }
}

void expect_equal(const torch::nn::Module& a, const torch::nn::Module& b) {
  for (const auto& item : a.named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), b.named_parameters()[item.key()])) << item.key();
  }
  for (const auto& item : a.named_buffers()) {
    EXPECT_TRUE(torch::equal(item.value(), b.named_buffers()[item.key()])) << item.key();
  }
}

std::string message_of_failure(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return manta::str(kind_name(error.kind()), ": ", error.what());
  }
  return "no error";
}

using MakeOptimizer = std::unique_ptr<torch::optim::Optimizer> (*)(std::vector<torch::Tensor>);
struct OptimizerCase {
  const char* name;
  MakeOptimizer make;
};
template <class O, class Options>
std::unique_ptr<torch::optim::Optimizer> make(std::vector<torch::Tensor> parameters,
                                              Options options) {
  return std::make_unique<O>(std::move(parameters), options);
}
const OptimizerCase kOptimizers[] = {
    {"Adam", [](auto p) { return make<torch::optim::Adam>(p, torch::optim::AdamOptions(1e-2)); }},
    {"Adam with amsgrad",
     [](auto p) {
       return make<torch::optim::Adam>(
           p, torch::optim::AdamOptions(1e-2).amsgrad(true).betas({0.8, 0.95}).weight_decay(1e-3));
     }},
    {"AdamW",
     [](auto p) { return make<torch::optim::AdamW>(p, torch::optim::AdamWOptions(1e-2)); }},
    {"SGD", [](auto p) { return make<torch::optim::SGD>(p, torch::optim::SGDOptions(1e-2)); }},
    {"SGD with momentum",
     [](auto p) {
       return make<torch::optim::SGD>(p,
                                      torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true));
     }},
    {"RMSprop",
     [](auto p) {
       return make<torch::optim::RMSprop>(
           p, torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true));
     }},
    {"Adagrad",
     [](auto p) {
       return make<torch::optim::Adagrad>(p, torch::optim::AdagradOptions(1e-2).lr_decay(0.01));
     }},
};

TEST_F(TorchCheckpointTest, TrainingGoesOnBitByBit) {
  for (const OptimizerCase& c : kOptimizers) {
    SCOPED_TRACE(c.name);
    SavedNet net;
    auto optimizer = c.make(net->parameters());
    train(net, *optimizer, 0, 5);
    optimizer->param_groups()[0].options().set_lr(0.0123);  // as a schedule does
    Checkpoint checkpoint = save(TorchCheckpoint::from_model(net, *optimizer).set("epoch", 3));
    train(net, *optimizer, 5, 10);

    TorchCheckpoint saved(checkpoint);
    SavedNet other;
    auto other_optimizer = c.make(other->parameters());
    train(other, *other_optimizer, 50, 52);
    saved.load_model(other);
    saved.load_optimizer(*other_optimizer);
    EXPECT_EQ(saved.get("epoch"), 3);
    EXPECT_EQ(other_optimizer->param_groups()[0].options().get_lr(), 0.0123);
    train(other, *other_optimizer, 5, 10);
    expect_equal(*net, *other);
  }
}

TEST_F(TorchCheckpointTest, SeveralParameterGroups) {
  auto make_optimizer = [](SavedNet& net) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(net->first->parameters(),
                        std::make_unique<torch::optim::AdamOptions>(1e-3));
    groups.emplace_back(net->last->parameters(), std::make_unique<torch::optim::AdamOptions>(1e-2));
    return torch::optim::Adam(groups);
  };
  SavedNet net, other;
  auto optimizer = make_optimizer(net);
  train(net, optimizer, 0, 5);
  TorchCheckpoint saved(save(TorchCheckpoint::from_model(net).add_optimizer(optimizer)));
  train(net, optimizer, 5, 10);
  auto other_optimizer = make_optimizer(other);
  saved.load_model(other);
  saved.load_optimizer(other_optimizer);
  train(other, other_optimizer, 5, 10);
  expect_equal(*net, *other);
  torch::optim::Adam flat(other->parameters());
  EXPECT_THAT(message_of_failure([&] { saved.load_optimizer(flat); }),
              HasSubstr("has 1 parameter groups"));
}

TEST_F(TorchCheckpointTest, TakesEveryKindOfModel) {
  SavedNet net;
  auto model = train::prepare_model(net, train::SyncOptions());
  torch::nn::Module& base = *net;
  for (const TorchCheckpoint& checkpoint :
       {TorchCheckpoint::from_model(net), TorchCheckpoint::from_model(model),
        TorchCheckpoint::from_model(base), TorchCheckpoint::from_model(*net),
        TorchCheckpoint::from_model(net.ptr())}) {
    auto other = train::prepare_model(SavedNet(), train::SyncOptions());
    TorchCheckpoint::from_checkpoint(save(checkpoint)).load_model(other);
    expect_equal(*net, other.base());
  }
}

TEST_F(TorchCheckpointTest, ChangesAfterStagingDoNotShow) {
  SavedNet net;
  SavedNet before;
  std::shared_ptr<CheckpointSource> source = TorchCheckpoint::from_model(net);
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : before->parameters()) parameter.zero_();
    for (auto& parameter : net->parameters()) parameter.zero_();
    source->stage();
    for (auto& parameter : net->parameters()) parameter.fill_(9);
  }
  SavedNet loaded;
  TorchCheckpoint(write(*source)).load_model(loaded);
  expect_equal(*before, *loaded);
}

TEST_F(TorchCheckpointTest, StagingBuffersAreReused) {
  auto& pool = detail::StagingPool::instance();
  SavedNet net;
  save(TorchCheckpoint::from_model(net));
  size_t bytes = pool.free_bytes();
  EXPECT_GT(bytes, 0u);
  for (int i = 0; i < 3; ++i) save(TorchCheckpoint::from_model(net));
  EXPECT_EQ(pool.free_bytes(), bytes);
  {
    std::shared_ptr<CheckpointSource> dropped = TorchCheckpoint::from_model(net);
    dropped->stage();
    EXPECT_EQ(pool.free_bytes(), 0u);
  }
  EXPECT_EQ(pool.free_bytes(), bytes);
}

TEST(StagingPool, TakesTheSmallestThatFits) {
  constexpr size_t kMiB = size_t{1} << 20;
  detail::StagingPool pool;
  char* small;
  char* large;
  {
    auto a = pool.acquire(2 * kMiB);
    auto b = pool.acquire(8 * kMiB);
    small = a.data();
    large = b.data();
  }
  EXPECT_EQ(pool.free_bytes(), 10 * kMiB);
  EXPECT_EQ(pool.acquire(1).data(), small);
  EXPECT_EQ(pool.acquire(3 * kMiB).data(), large);
  // No free buffer fits: the free ones are dropped to make room.
  EXPECT_EQ(pool.acquire(20 * kMiB).capacity(), 20 * kMiB);
  EXPECT_EQ(pool.free_bytes(), 20 * kMiB);
}

TEST(StagingPool, ASpareBufferIsMadeWhileACheckpointIsWrittenForLong) {
  using namespace std::chrono_literals;
  constexpr size_t kSize = size_t{8} << 20;
  detail::StagingPool pool;
  { detail::SpareBuffer spare(pool, kSize, 1h); }
  EXPECT_EQ(pool.free_bytes(), 0u);
  {
    detail::SpareBuffer spare(pool, kSize, 0ms);
    for (auto deadline = Deadline::after(30s); pool.free_bytes() == 0 && !deadline.passed();)
      std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(pool.free_bytes(), kSize);
  pool.prepare(kSize, {});  // there is one already
  EXPECT_EQ(pool.free_bytes(), kSize);
}

TEST_F(TorchCheckpointTest, OddTensors) {
  struct OddImpl : torch::nn::Module {
    OddImpl() {
      register_parameter("transposed", torch::randn({3, 5}).t());
      register_parameter("half", torch::randn({7}).to(torch::kHalf));
      register_parameter("empty", torch::empty({0, 3}));
      register_buffer("flag", torch::tensor({true, false, true}));
      register_buffer("count", torch::tensor(int64_t{1} << 50));
      register_buffer("view", torch::randn({10}).slice(0, 2, 10, 3));
    }
  };
  OddImpl odd, other;
  TorchCheckpoint(save(TorchCheckpoint::from_model(odd))).load_model(other);
  expect_equal(odd, other);
}

TEST_F(TorchCheckpointTest, OnlyRankZeroWrites) {
  SavedNet net;
  auto source = TorchCheckpoint::from_model(net).source({.rank = 1});
  source->stage();
  CheckpointFolder folder(store_.staging_folder(1, 1, 1));
  source->write(folder);
  EXPECT_TRUE(folder.files().empty());
}

TEST_F(TorchCheckpointTest, SaysWhatDoesNotFit) {
  SavedNet net;
  torch::optim::Adam optimizer(net->parameters());
  train(net, optimizer, 0, 1);
  TorchCheckpoint saved(save(TorchCheckpoint::from_model(net, optimizer).set("a", 1)));
  SavedNet wide(9);
  torch::Tensor before = wide->last->bias.clone();
  EXPECT_THAT(message_of_failure([&] { saved.load_model(wide); }),
              AllOf(HasSubstr("first.weight: [8, 4] in the checkpoint, [9, 4] in the model"),
                    HasSubstr("norm.running_mean: [8]"), testing::Not(HasSubstr("last.bias"))));
  EXPECT_TRUE(torch::equal(wide->last->bias, before));
  torch::nn::Linear linear(4, 8);
  EXPECT_THAT(message_of_failure([&] { saved.load_model(linear); }),
              AllOf(HasSubstr("missing: weight"), HasSubstr("not in the model: first.weight")));
  torch::optim::SGD sgd(net->parameters(), 0.1);
  EXPECT_THAT(message_of_failure([&] { saved.load_optimizer(sgd); }),
              AllOf(HasSubstr("\"Adam\""), HasSubstr("SGD")));
  torch::optim::Adam other(wide->parameters());
  EXPECT_THAT(message_of_failure([&] { saved.load_optimizer(other); }),
              HasSubstr("'0.exp_avg' has shape"));
  EXPECT_TRUE(other.state().empty());
  EXPECT_THAT(message_of_failure([&] { saved.get("b"); }),
              HasSubstr("nothing was set as 'b'; there is: a"));
  TorchCheckpoint model_only(save(TorchCheckpoint::from_model(net)));
  EXPECT_THAT(
      message_of_failure([&] { model_only.load_optimizer(optimizer); }),
      HasSubstr("not found: TorchCheckpoint: it has no optimizer 'optimizer'; there is: none"));
  struct Unknown : torch::optim::Optimizer {
    explicit Unknown(std::vector<torch::Tensor> parameters)
        : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                    std::make_unique<torch::optim::SGDOptions>(0.1)) {}
    torch::Tensor step(LossClosure) override { return {}; }
  };
  Unknown unknown(net->parameters());
  EXPECT_THAT(message_of_failure([&] { TorchCheckpoint::from_model(net, unknown); }),
              AllOf(HasSubstr("Unknown"), HasSubstr("cannot be kept")));
}

// Minimises a fixed function of the model; every step evaluates it several times.
void minimise(SavedNet& net, torch::optim::LBFGS& optimizer, int steps) {
  net->eval();
  torch::manual_seed(5);
  torch::Tensor inputs = torch::randn({16, 4});
  for (int i = 0; i < steps; ++i) {
    optimizer.step([&] {
      optimizer.zero_grad();
      torch::Tensor loss = (net(inputs) - 1).square().mean();
      loss.backward();
      return loss;
    });
  }
}

TEST_F(TorchCheckpointTest, LbfgsGoesOnWhereItWas) {
  for (const char* search : {"", "strong_wolfe"}) {
    for (int pause : {0, 1, 3}) {
      auto options = torch::optim::LBFGSOptions(0.5).max_iter(4).history_size(5);
      if (*search) options.line_search_fn(search);
      torch::manual_seed(1);
      SavedNet net, other;
      torch::optim::LBFGS optimizer(net->parameters(), options), loaded(other->parameters());
      minimise(net, optimizer, pause);
      TorchCheckpoint saved(save(TorchCheckpoint::from_model(net, optimizer)));
      saved.load_model(other);
      saved.load_optimizer(loaded);
      minimise(net, optimizer, 3);
      minimise(other, loaded, 3);
      expect_equal(*net, *other);
      SavedNet wide(9);
      torch::optim::LBFGS unlike(wide->parameters());
      if (pause > 0) {
        EXPECT_THAT(message_of_failure([&] { saved.load_optimizer(unlike); }),
                    HasSubstr("numbers, the parameters need"));
        EXPECT_TRUE(unlike.state().empty());
      }
    }
  }
}

TEST_F(TorchCheckpointTest, DamagedFilesAreNamed) {
  SavedNet net;
  torch::optim::Adam optimizer(net->parameters());
  train(net, optimizer, 0, 1);
  auto damage = [&](const char* file, const std::string& content) {
    Checkpoint checkpoint = save(TorchCheckpoint::from_model(net, optimizer));
    std::ofstream(checkpoint.file(file), std::ios::binary) << content;
    return message_of_failure([&] {
      TorchCheckpoint saved(checkpoint);
      saved.load_model(net);
      saved.load_optimizer(optimizer);
    });
  };
  EXPECT_THAT(damage("model.safetensors", "short"),
              AllOf(HasSubstr("corrupt: "), HasSubstr("model.safetensors")));
  EXPECT_THAT(
      damage("optimizer.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10)),
      HasSubstr("corrupt: TorchCheckpoint: the optimizer 'optimizer' cannot be loaded: tensor"));
  EXPECT_THAT(damage("state.json", "{"), AllOf(HasSubstr("corrupt: "), HasSubstr("state.json")));
  EXPECT_THAT(damage("state.json", R"({"format": 3, "state": {}})"), HasSubstr("has format 3"));
  EXPECT_THAT(
      damage("state.json", R"({"format": 1, "state": {}, "optimizer": {"type": "Adam"}})"),
      HasSubstr(
          "corrupt: TorchCheckpoint: the optimizer 'optimizer' cannot be loaded: state.json"));
}

TEST_F(TorchCheckpointTest, NamesInDamagedFilesLeadNowhereElse) {
  SavedNet net;
  for (const char* state :
       {R"({"format": 2, "state": {}, "models": ["../model"], "optimizers": {}, "schedulers": {}})",
        R"({"format": 2, "state": {}, "models": [7], "optimizers": {}, "schedulers": {}})",
        R"({"format": 2, "state": {}, "models": {}, "optimizers": {}, "schedulers": {}})",
        R"({"format": 2, "state": {}, "models": [], "optimizers": {"/": {}}, "schedulers": {}})",
        R"({"format": 2, "state": {}, "models": [], "optimizers": [], "schedulers": {}})",
        R"({"format": 2, "state": {}, "models": [], "optimizers": {}})"}) {
    Checkpoint checkpoint = save(TorchCheckpoint::from_model(net));
    std::ofstream(checkpoint.file("state.json"), std::ios::binary) << state;
    EXPECT_THAT(message_of_failure([&] { TorchCheckpoint saved(checkpoint); }),
                HasSubstr("is not the state of a TorchCheckpoint"))
        << state;
  }
}

TEST_F(TorchCheckpointTest, NumbersThatJsonLacksComeBack) {
  SavedNet net;
  Json nested = {{"a/b", {1, -INFINITY, {{"~", NAN}}}}, {"text", "inf"}, {"none", nullptr}};
  TorchCheckpoint saved(save(TorchCheckpoint::from_model(net)
                                 .set("best_loss", INFINITY)
                                 .set("nested", nested)
                                 .set("", 1)));
  EXPECT_EQ(saved.get("best_loss").get<double>(), INFINITY);
  EXPECT_EQ(saved.get("nested").at("a/b").at(1).get<double>(), -INFINITY);
  EXPECT_TRUE(std::isnan(saved.get("nested").at("a/b").at(2).at("~").get<double>()));
  EXPECT_EQ(saved.get("nested").at("text"), "inf");
  EXPECT_TRUE(saved.get("nested").at("none").is_null());
  EXPECT_EQ(saved.get(""), 1);
  // Saves the checkpoint that was read once more.
  EXPECT_EQ(TorchCheckpoint(save(saved)).get("best_loss").get<double>(), INFINITY);
}

TEST_F(TorchCheckpointTest, OptionsThatJsonLacksComeBack) {
  SavedNet net, other;
  torch::optim::Adam optimizer(net->parameters());
  // A loop may set such values: the constructor would refuse them.
  static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options())
      .lr(INFINITY)
      .betas({0.5, NAN});
  TorchCheckpoint saved(save(TorchCheckpoint::from_model(net, optimizer)));
  torch::optim::Adam loaded(other->parameters());
  saved.load_optimizer(loaded);
  auto& options = static_cast<torch::optim::AdamOptions&>(loaded.param_groups()[0].options());
  EXPECT_EQ(options.lr(), INFINITY);
  EXPECT_EQ(std::get<0>(options.betas()), 0.5);
  EXPECT_TRUE(std::isnan(std::get<1>(options.betas())));
}

TEST_F(TorchCheckpointTest, WhatCouldNotBeReadAgainIsRefusedAtOnce) {
  Json deep = 1;
  for (int i = 0; i < 998; ++i) deep = Json::array({std::move(deep)});
  SavedNet net;
  TorchCheckpoint saved(save(TorchCheckpoint::from_model(net).set("deep", deep)));
  EXPECT_EQ(saved.get("deep"), deep);
  deep = Json::array({std::move(deep)});
  TorchCheckpoint checkpoint;
  for (const Json& value :
       {deep, Json("\xff"), Json{{"a", {1, "\xc3"}}}, Json{{"\xff", 1}}, Json::binary({1, 2})}) {
    EXPECT_THAT(message_of_failure([&] { checkpoint.set("mine", value); }),
                AllOf(HasSubstr(kind_name(ErrorKind::kInvalidArgument)), HasSubstr("'mine'")));
  }
  EXPECT_THAT(message_of_failure([&] { checkpoint.set("\xff", 1); }), HasSubstr("not UTF-8"));
  EXPECT_TRUE(checkpoint.state().empty());
}

TEST_F(TorchCheckpointTest, PredictorEvaluates) {
  SavedNet net;
  torch::optim::Adam optimizer(net->parameters());
  train(net, optimizer, 0, 5);
  Checkpoint checkpoint = save(TorchCheckpoint::from_model(net));
  TorchPredictor predictor = TorchPredictor::from_checkpoint(checkpoint, SavedNet());
  net->eval();
  torch::Tensor inputs = torch::randn({3, 4});
  torch::Tensor outputs = predictor.predict(inputs);
  EXPECT_TRUE(torch::equal(outputs, net(inputs)));
  EXPECT_FALSE(outputs.requires_grad());
  EXPECT_TRUE(torch::equal(predictor.predict(inputs[1].unsqueeze(0)), net(inputs[1].unsqueeze(0))));
}

}  // namespace
}  // namespace manta
