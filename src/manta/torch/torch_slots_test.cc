// Checkpoints of several models, optimizers and schedulers.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/torch/reduce_on_plateau.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_predictor.h"
#include "manta/train/checkpoint_store_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using torch::optim::Adam;
using torch::optim::ReduceLROnPlateauScheduler;
using torch::optim::SGD;
using torch::optim::StepLR;

class TorchSlots : public testing::Test {
 protected:
  TorchSlots() : store_(folder_.path(), {}) {
    torch::set_num_threads(1);
    torch::manual_seed(1);
  }
  Checkpoint save(const TorchCheckpoint& checkpoint) {
    std::shared_ptr<CheckpointSource> source = checkpoint;
    source->stage();
    CheckpointFolder folder(store_.staging_folder(1, ++index_, 0));
    source->write(folder);
    return store_.commit({.index = index_, .attempt = 1}, {{0, folder.files()}});
  }

  TemporaryFolder folder_;
  train::CheckpointStore store_;
  int64_t index_ = 0;
};

void step(torch::nn::Linear& model, torch::optim::Optimizer& optimizer, int seed) {
  torch::manual_seed(seed);
  optimizer.zero_grad();
  model(torch::randn({8, 4})).square().mean().backward();
  optimizer.step();
}

double lr_of(torch::optim::Optimizer& optimizer) {
  return optimizer.param_groups()[0].options().get_lr();
}

// A GAN: two models with an optimizer each, of the same shapes, so that only the names tell them
// apart.
struct Pair {
  torch::nn::Linear g{4, 2}, d{4, 2};
  Adam g_optimizer{g->parameters(), 1e-2}, d_optimizer{d->parameters(), 1e-3};
  void train(int begin, int end) {
    for (int i = begin; i < end; ++i) {
      step(g, g_optimizer, i);
      if (i % 2) step(d, d_optimizer, 1000 + i);
    }
  }
};

TEST_F(TorchSlots, EachGetsItsOwnBack) {
  Pair pair;
  pair.train(0, 5);
  Checkpoint checkpoint = save(TorchCheckpoint::from_model(pair.g, pair.g_optimizer)
                                   .add_model("discriminator", pair.d)
                                   .add_optimizer("d", pair.d_optimizer));
  EXPECT_THAT(
      checkpoint.files(),
      UnorderedElementsAre("model.safetensors", "discriminator.safetensors",
                           "optimizer.safetensors", "d.optimizer.safetensors", "state.json"));
  pair.train(5, 10);

  Pair other;
  TorchCheckpoint saved(checkpoint);
  saved.load_model(other.g);
  saved.load_model("discriminator", other.d);
  saved.load_optimizer(other.g_optimizer);
  saved.load_optimizer("d", other.d_optimizer);
  EXPECT_EQ(lr_of(other.g_optimizer), 1e-2);
  EXPECT_EQ(lr_of(other.d_optimizer), 1e-3);
  other.train(5, 10);
  EXPECT_TRUE(torch::equal(pair.g->weight, other.g->weight));
  EXPECT_TRUE(torch::equal(pair.d->weight, other.d->weight));

  auto inputs = torch::randn({3, 4});
  auto g = TorchPredictor::from_checkpoint(checkpoint, torch::nn::Linear(4, 2));
  auto d = TorchPredictor::from_checkpoint(checkpoint, torch::nn::Linear(4, 2),
                                           {.slot = "discriminator"});
  torch::nn::Linear loaded(4, 2);
  saved.load_model("discriminator", loaded);
  EXPECT_TRUE(torch::equal(d.predict(inputs), loaded(inputs)));
  EXPECT_FALSE(torch::equal(g.predict(inputs), d.predict(inputs)));
}

TEST_F(TorchSlots, NothingNeedsTheDefaultName) {
  Pair pair;
  pair.train(0, 2);
  TorchCheckpoint saved(save(TorchCheckpoint()
                                 .add_model("same", pair.d)
                                 .add_optimizer("same", pair.d_optimizer)
                                 .add_scheduler("same", StepLR(pair.d_optimizer, 2))
                                 .set("step", 2)));
  EXPECT_TRUE(saved.has_model("same") && saved.has_optimizer("same") &&
              saved.has_scheduler("same"));
  EXPECT_FALSE(saved.has_model() || saved.has_optimizer() || saved.has_scheduler());
  Pair other;
  saved.load_model("same", other.d);
  saved.load_optimizer("same", other.d_optimizer);
  EXPECT_TRUE(torch::equal(pair.d->weight, other.d->weight));
  EXPECT_EQ(saved.tensors("same").size(), 2);
}

TEST_F(TorchSlots, WhatIsTakenMissingOrMisnamedIsSaid) {
  Pair pair;
  auto checkpoint = TorchCheckpoint::from_model(pair.g, pair.g_optimizer);
  EXPECT_THAT(message_of([&] { checkpoint.add_optimizer(pair.d_optimizer); }),
              HasSubstr("the optimizer 'optimizer' is there already; give each its own name: "
                        "add_optimizer(\"name\", optimizer)"));
  EXPECT_THAT(message_of([&] { checkpoint.add_model("model", pair.d); }),
              HasSubstr("the model 'model' is there already"));
  for (const char* name : {"", "a/b", "..", "a b", "\xc3\xa4"}) {
    EXPECT_THAT(message_of([&] { checkpoint.add_model(name, pair.d); }),
                HasSubstr(str("the model cannot be named '", name, "'")));
  }
  EXPECT_THAT(message_of([&] { checkpoint.add_model("optimizer", pair.d); }),
              HasSubstr("take another name"));
  EXPECT_THAT(
      message_of([&] { checkpoint.add_optimizer(std::string(101, 'x'), pair.d_optimizer); }),
      HasSubstr("use 1 to 100 letters"));
  // Refused additions leave nothing behind.
  TorchCheckpoint saved(save(checkpoint.add_optimizer("d", pair.d_optimizer)));
  EXPECT_THAT(message_of([&] { saved.load_model("generator", pair.g); }),
              HasSubstr("it has no model 'generator'; there is: model"));
  EXPECT_THAT(message_of([&] { saved.load_optimizer("g", pair.g_optimizer); }),
              HasSubstr("it has no optimizer 'g'; there is: d, optimizer"));
  StepLR scheduler(pair.g_optimizer, 2);
  EXPECT_THAT(message_of([&] { saved.load_scheduler(scheduler); }),
              HasSubstr("it has no scheduler 'scheduler'; there is: none"));
  SGD sgd(pair.d->parameters(), 0.1);
  EXPECT_THAT(message_of([&] { saved.load_optimizer("d", sgd); }),
              HasSubstr("the optimizer 'd' cannot be loaded: the checkpoint has the state of "
                        "\"Adam\", it is an SGD"));
  torch::nn::Linear wide(5, 2);
  EXPECT_THAT(message_of([&] { saved.load_model(wide); }),
              HasSubstr("the weights of 'model' do not fit the model:\n  weight: [2, 4]"));
}

TEST_F(TorchSlots, ReadsTheFormatWithoutSlots) {
  Pair pair;
  pair.train(0, 3);
  Checkpoint checkpoint = save(TorchCheckpoint::from_model(pair.g, pair.g_optimizer).set("a", 1));
  std::string file = checkpoint.file("state.json");
  Json now = Json::parse(std::ifstream(file));
  // The JSON as the first version of this program wrote it.
  Json old = {
      {"format", 1}, {"state", now["state"]}, {"optimizer", now["optimizers"]["optimizer"]}};
  std::ofstream(file, std::ios::trunc) << old.dump(2);
  Pair other;
  TorchCheckpoint saved(checkpoint);
  saved.load_model(other.g);
  saved.load_optimizer(other.g_optimizer);
  EXPECT_EQ(saved.get("a"), 1);
  step(pair.g, pair.g_optimizer, 3);
  step(other.g, other.g_optimizer, 3);
  EXPECT_TRUE(torch::equal(pair.g->weight, other.g->weight));
}

// Runs a schedule, and one that is saved and loaded after `pause` steps: the learning rates must be
// the same to the end.
template <class Make, class Step>
void expect_same_schedule(const std::function<TorchCheckpoint(const TorchCheckpoint&)>& reload,
                          int pause, const Make& make, const Step& step_scheduler) {
  auto parameters = torch::nn::Linear(4, 2)->parameters();
  SGD optimizer(parameters, 1), other_optimizer(parameters, 0.5);
  auto scheduler = make(optimizer);
  for (int i = 0; i < pause; ++i) step_scheduler(scheduler, i);
  TorchCheckpoint saved =
      reload(TorchCheckpoint().add_optimizer(optimizer).add_scheduler("lr", scheduler));
  auto other = make(other_optimizer);
  step_scheduler(other, 7);
  saved.load_optimizer(other_optimizer);
  saved.load_scheduler("lr", other);
  for (int i = pause; i < 20; ++i) {
    EXPECT_EQ(lr_of(optimizer), lr_of(other_optimizer)) << i;
    step_scheduler(scheduler, i);
    step_scheduler(other, i);
  }
  EXPECT_LT(lr_of(optimizer), 0.5);
}

TEST_F(TorchSlots, SchedulesGoOnWhereTheyWere) {
  auto reload = [&](const TorchCheckpoint& checkpoint) {
    return TorchCheckpoint(save(checkpoint));
  };
  for (int pause : {0, 1, 4, 9}) {
    SCOPED_TRACE(pause);
    expect_same_schedule(
        reload, pause, [](auto& optimizer) { return StepLR(optimizer, 3, 0.7); },
        [](StepLR& scheduler, int) { scheduler.step(); });
    // Better at first, then never again: counts bad epochs, reduces, cools down, counts again.
    for (auto mode : {ReduceLROnPlateauScheduler::min, ReduceLROnPlateauScheduler::max}) {
      float sign = mode == ReduceLROnPlateauScheduler::min ? 1 : -1;
      expect_same_schedule(
          reload, pause,
          [mode](auto& optimizer) {
            return ReduceLROnPlateauScheduler(optimizer, mode, 0.7, 2, 1e-3,
                                              ReduceLROnPlateauScheduler::abs, 2);
          },
          [sign](ReduceLROnPlateauScheduler& scheduler, int i) {
            scheduler.step(sign * static_cast<float>(i < 3 ? 3 - i : 1));
          });
    }
  }
}

// A user's scheduler: libtorch's class with its state as JSON.
struct EverySecond : torch::optim::LRScheduler, StatefulScheduler {
  using LRScheduler::LRScheduler;
  std::vector<double> get_lrs() override {
    auto rates = get_current_lrs();
    if (++calls % 2 == 0) rates[0] *= 0.8;
    return rates;
  }
  std::string type() const override { return "EverySecond"; }
  Json state() const override { return {{"calls", calls}, {"least", -INFINITY}}; }
  void load_state(const Json& state) override {
    if (state.at("least").get<double>() != -INFINITY) throw std::runtime_error("no infinity");
    calls = state.at("calls").get<int>();
  }
  int calls = 0;
};

TEST_F(TorchSlots, MantasAndUsersSchedulersGoOnWhereTheyWere) {
  auto reload = [&](const TorchCheckpoint& checkpoint) {
    return TorchCheckpoint(save(checkpoint));
  };
  auto step = [](auto& scheduler, int) { scheduler.step(); };
  for (int pause : {0, 1, 4, 9}) {
    SCOPED_TRACE(pause);
    expect_same_schedule(
        reload, pause, [](auto& optimizer) { return CosineAnnealingLR(optimizer, {.t_max = 20}); },
        step);
    expect_same_schedule(
        reload, pause,
        [](auto& optimizer) {
          return LinearWarmup(optimizer, {.steps = 3},
                              OneCycleLR(optimizer, {.max_lr = 2, .total_steps = 18}));
        },
        step);
    expect_same_schedule(
        reload, pause, [](auto& optimizer) { return EverySecond(optimizer); }, step);
    expect_same_schedule(
        reload, pause,
        [](auto& optimizer) {
          return ReduceLROnPlateau(optimizer, {.factor = 0.7, .patience = 2, .cooldown = 2});
        },
        [](auto& scheduler, int i) { scheduler.step(i < 3 ? 3 - i : 1); });
  }
}

TEST_F(TorchSlots, MantasSchedulersThatDoNotFitAreSaid) {
  torch::nn::Linear model(4, 2);
  SGD optimizer(model->parameters(), 1);
  CosineAnnealingLR eight(optimizer, {.t_max = 8}), nine(optimizer, {.t_max = 9});
  LinearWarmup warmup(optimizer);
  EverySecond mine(optimizer);
  Checkpoint checkpoint = save(TorchCheckpoint().add_scheduler(eight).add_scheduler("m", mine));
  TorchCheckpoint saved(checkpoint);
  EXPECT_THAT(message_of([&] { saved.load_scheduler(nine); }),
              AllOf(HasSubstr("the scheduler 'scheduler' cannot be loaded: it has the options"),
                    HasSubstr("\"t_max\":9"), HasSubstr("\"t_max\":8")));
  EXPECT_THAT(message_of([&] { saved.load_scheduler(warmup); }),
              HasSubstr("has the state of \"CosineAnnealingLR\", it is a LinearWarmup"));
  Json state = Json::parse(std::ifstream(checkpoint.file("state.json")));
  state["schedulers"]["scheduler"]["state"]["steps"] = -1;
  state["schedulers"]["m"]["state"]["least"] = 0;
  state["schedulers"]["m"]["numbers"] = Json::object();
  std::ofstream(checkpoint.file("state.json"), std::ios::trunc) << state.dump();
  TorchCheckpoint damaged(checkpoint);
  EXPECT_EQ(error_of([&] { damaged.load_scheduler(eight); }).kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(message_of([&] { damaged.load_scheduler("m", mine); }),
              HasSubstr("the scheduler 'm' cannot be loaded: no infinity"));
}

TEST_F(TorchSlots, TheScalerIsKept) {
  train::GradScaler scaler({.init_scale = 8, .growth_interval = 2}), other;
  torch::Tensor x = torch::ones({2}, torch::requires_grad());
  SGD optimizer({x}, 0.1);
  for (int i = 0; i < 3; ++i) {
    scaler.scale(x.sum()).backward();
    scaler.step(optimizer);
    scaler.update();
  }
  TorchCheckpoint saved(save(TorchCheckpoint().add_scaler(scaler).set("a", 1)));
  EXPECT_TRUE(saved.has_scaler());
  saved.load_scaler(other);
  EXPECT_EQ(other.get_scale(), 16);
  EXPECT_EQ(other.state(), scaler.state());
  EXPECT_THAT(message_of([&] { saved.load_scaler(other, "second"); }),
              HasSubstr("it has no scaler 'second'; there is: scaler"));
}

TEST_F(TorchSlots, APlateausOptionsAreRestored) {
  auto parameters = torch::nn::Linear(4, 2)->parameters();
  SGD optimizer(parameters, 1);
  ReduceLROnPlateauScheduler patient(optimizer, ReduceLROnPlateauScheduler::max, 0.5, 1);
  TorchCheckpoint saved(save(TorchCheckpoint().add_scheduler(patient)));
  ReduceLROnPlateauScheduler other(optimizer, ReduceLROnPlateauScheduler::min, 0.1, 5);
  saved.load_scheduler(other);
  other.step(1);
  EXPECT_EQ(lr_of(optimizer), 1);
  other.step(1);
  other.step(1);
  EXPECT_EQ(lr_of(optimizer), 0.5);
}

TEST_F(TorchSlots, SchedulersThatDoNotFitAreSaid) {
  struct Warmup : torch::optim::LRScheduler {
    using LRScheduler::LRScheduler;
    std::vector<double> get_lrs() override { return get_current_lrs(); }
  };
  torch::nn::Linear model(4, 2);
  SGD optimizer(model->parameters(), 1);
  StepLR every_third(optimizer, 3, 0.7), every_fourth(optimizer, 4, 0.7);
  ReduceLROnPlateauScheduler plateau(optimizer);
  Warmup warmup(optimizer);
  Checkpoint checkpoint =
      save(TorchCheckpoint().add_scheduler(every_third).add_scheduler("p", plateau));
  TorchCheckpoint saved(checkpoint);
  EXPECT_THAT(message_of([&] { TorchCheckpoint().add_scheduler(warmup); }),
              AllOf(HasSubstr("Warmup cannot be kept"), HasSubstr("set() and get()")));
  EXPECT_THAT(message_of([&] { saved.load_scheduler(every_fourth); }),
              HasSubstr("the scheduler 'scheduler' cannot be loaded: it has step_size 4 and gamma "
                        "0.7, in the checkpoint they are 3 and 0.7"));
  EXPECT_THAT(message_of([&] { saved.load_scheduler("p", every_third); }),
              HasSubstr("has the state of \"ReduceLROnPlateauScheduler\", it is a StepLR"));
  EXPECT_THAT(message_of([&] { saved.load_scheduler(plateau); }),
              HasSubstr("has the state of \"StepLR\", it is a ReduceLROnPlateauScheduler"));
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& parameter : model->parameters()) {
    groups.emplace_back(std::vector<torch::Tensor>{parameter});
  }
  SGD two_groups(groups, torch::optim::SGDOptions(1));
  ReduceLROnPlateauScheduler for_two(two_groups);
  EXPECT_THAT(message_of([&] { saved.load_scheduler("p", for_two); }),
              HasSubstr("it is for 2 parameter groups, in the checkpoint for 1"));

  Json state = Json::parse(std::ifstream(checkpoint.file("state.json")));
  for (Json wrong : {Json(), Json("high"), Json(1e300), Json(~uint64_t{0}), Json::array()}) {
    Json damaged = state;
    damaged["schedulers"]["p"]["num_bad_epochs"] = wrong;
    std::ofstream(checkpoint.file("state.json"), std::ios::trunc) << damaged.dump();
    Error error = error_of([&] { TorchCheckpoint(checkpoint).load_scheduler("p", plateau); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("the scheduler 'p' cannot be loaded: state.json"));
  }
}

// Replicas are equal in their parameters, not in their buffers.
TEST_F(TorchSlots, TheFingerprintIsOfTheParameters) {
  auto fingerprint = [](const TorchCheckpoint& checkpoint, int rank) {
    auto source = checkpoint.source({.rank = rank});
    source->stage();
    return source->fingerprint();
  };
  torch::nn::BatchNorm1d a(3), b(3);
  auto first = fingerprint(TorchCheckpoint::from_model(a), 0);
  EXPECT_TRUE(first.has_value());
  b->running_mean.fill_(5);
  EXPECT_EQ(fingerprint(TorchCheckpoint::from_model(b), 1), first);
  torch::NoGradGuard no_grad;
  b->bias[2].add_(1e-6);
  EXPECT_NE(fingerprint(TorchCheckpoint::from_model(b), 1), first);
  auto source = TorchCheckpoint::from_model(a).source({.rank = 1});
  source->stage();
  a->weight.fill_(3);  // as a loop does after report()
  EXPECT_EQ(source->fingerprint(), first);
}

TEST_F(TorchSlots, PredictionsAreOfTheModelsType) {
  // The input as another type; in two columns if that is float32.
  struct AsTypeImpl : torch::nn::Module {
    explicit AsTypeImpl(torch::Dtype dtype) : type(dtype) {}
    torch::Tensor forward(const torch::Tensor& x) { return x.to(type); }
    torch::Dtype type;
  };
  constexpr int64_t kLarge = (int64_t{1} << 53) - 1;  // float32 would round it
  auto rows = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("x", arrow::int64())}), 2,
      {check(arrow::MakeArrayFromScalar(arrow::Int64Scalar(kLarge), 2), "test data")});
  auto predictions = [&](torch::Dtype type, std::vector<std::string> columns) {
    auto model = std::make_shared<AsTypeImpl>(type);
    TorchPredictor predictor(TorchCheckpoint::from_model(model), model,
                             {.inputs = {{.columns = std::move(columns), .dtype = torch::kInt64}}});
    auto none = predictor.predict(rows->Slice(2)), all = predictor.predict(rows);
    EXPECT_TRUE(none->schema()->Equals(*all->schema())) << "types do not depend on rows";
    return all->GetColumnByName("predictions");
  };
  struct {
    torch::Dtype type;
    std::shared_ptr<arrow::DataType> column;
  } cases[] = {{torch::kInt64, arrow::int64()},     {torch::kFloat64, arrow::float64()},
               {torch::kFloat32, arrow::float32()}, {torch::kFloat16, arrow::float16()},
               {torch::kInt32, arrow::int32()},     {torch::kInt16, arrow::int16()},
               {torch::kInt8, arrow::int8()},       {torch::kUInt8, arrow::uint8()},
               {torch::kBool, arrow::boolean()},    {torch::kBFloat16, arrow::float32()}};
  for (const auto& one : cases) {
    EXPECT_TRUE(predictions(one.type, {"x"})->type()->Equals(*one.column)) << one.type;
    EXPECT_TRUE(
        predictions(one.type, {"x", "x"})->type()->Equals(*arrow::fixed_size_list(one.column, 2)))
        << one.type;
  }
  EXPECT_EQ(static_cast<arrow::Int64Array&>(*predictions(torch::kInt64, {"x"})).Value(1), kLarge);
  EXPECT_EQ(static_cast<arrow::DoubleArray&>(*predictions(torch::kFloat64, {"x"})).Value(1),
            static_cast<double>(kLarge));
  EXPECT_TRUE(static_cast<arrow::BooleanArray&>(*predictions(torch::kBool, {"x"})).Value(1));
  EXPECT_THAT(message_of([&] { predictions(torch::kComplexFloat, {"x"}); }),
              HasSubstr("which no column holds"));
}

TEST_F(TorchSlots, ThePredictorTakesSeveralInputs) {
  struct TwoImpl : torch::nn::Module {
    TwoImpl()
        : embedding(register_module("embedding", torch::nn::Embedding(10, 2))),
          linear(register_module("linear", torch::nn::Linear(3, 1))) {}
    torch::Tensor forward(torch::Tensor ids, const torch::Tensor& x) {
      return linear(torch::cat({embedding(ids.squeeze(1)), x}, 1));
    }
    torch::nn::Embedding embedding;
    torch::nn::Linear linear;
  };
  auto model = std::make_shared<TwoImpl>();
  auto predictor = TorchPredictor::from_checkpoint(save(TorchCheckpoint::from_model(model)),
                                                   std::make_shared<TwoImpl>());
  auto ids = torch::tensor({int64_t{3}, int64_t{9}}).unsqueeze(1);
  auto x = torch::tensor({{0.5f}, {2.0f}});
  auto expected = model->forward(ids, x).detach();
  EXPECT_TRUE(torch::equal(predictor.predict({ids, x}), expected));
  EXPECT_THAT(message_of([&] { predictor.predict(x); }),
              HasSubstr("1 tensors were given, the model's forward takes 2"));
  EXPECT_THAT(message_of([&] {
                predictor.predict({ids, x.slice(0, 1)});
              }),
              HasSubstr("different rows: they are of shape [2, 1] [1, 1]"));

  auto rows = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("x", arrow::float64())}), 2,
      {check(arrow::MakeArrayFromScalar(arrow::Int64Scalar(3), 2), "test data"),
       check(arrow::MakeArrayFromScalar(arrow::DoubleScalar(0.5), 2), "test data")});
  auto save_model = [&](const TorchPredictorOptions& options) {
    return TorchPredictor::from_checkpoint(save(TorchCheckpoint::from_model(model)),
                                           std::make_shared<TwoImpl>(), options);
  };
  auto of_columns =
      save_model({.inputs = {{.columns = {"id"}, .dtype = torch::kInt64}, {.columns = {"x"}}}});
  EXPECT_THAT(of_columns.input_columns(), testing::ElementsAre("id", "x"));
  auto result = of_columns.predict(rows);
  auto predictions =
      std::static_pointer_cast<arrow::FloatArray>(result->GetColumnByName("predictions"));
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_NEAR(predictions->Value(i), expected[0].item<float>(), 1e-5);
  EXPECT_THAT(message_of([&] { predictor.predict(rows); }), HasSubstr("takes tensors only"));
  EXPECT_THAT(
      message_of([&] { save_model({.feature_columns = {"x"}, .inputs = {{.columns = {"id"}}}}); }),
      HasSubstr("give one of them"));
}

}  // namespace
}  // namespace manta
