// State_dicts for and from Python: tests/state_dict.py is the other end, with the real torch.

#include "manta/torch/state_dict.h"

#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/unpickle_internal.h"
#include "manta/train/python_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using torch::Tensor;

// The text of the exception; empty if there is none.
template <class F>
std::string error_text_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string python(const std::string& command, const std::string& path) {
  return train::output_of(
      {MANTA_TORCH_PYTHON, "-B", MANTA_STATE_DICT_SCRIPT, MANTA_TORCH_PACKAGE, command, path});
}

torch::nn::Sequential make_model(int64_t outputs = 2) {
  return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                               torch::nn::Linear(4, outputs));
}

Tensor find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& each : tensors)
    if (each.name == name) return each.tensor;
  throw std::out_of_range(name);
}

class StateDictTest : public testing::Test {
 protected:
  // Python takes some seconds to start.
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    python("write", folder_->path());
  }
  static void TearDownTestSuite() { delete std::exchange(folder_, nullptr); }

  static std::string file(const std::string& name) { return folder_->path() + "/" + name; }
  static std::string why_not(const std::string& name, const ReadStateDictOptions& options = {}) {
    return error_text_of([&] { read_state_dict(file(name), options); });
  }

  static TemporaryFolder* folder_;
};
TemporaryFolder* StateDictTest::folder_ = nullptr;

TEST_F(StateDictTest, OfPythonIsLoadedIntoAModel) {
  for (const char* name : {"model.pt", "protocol4.pt"}) {
    auto model = make_model();
    LoadReport report = TorchCheckpoint::from_state_dict(file(name)).load_model(model);
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.loaded.size(), 9u);
    auto tensors = read_state_dict(file(name));
    EXPECT_EQ(tensors.front().name, "0.weight");
    EXPECT_TRUE(torch::equal(model->named_parameters()["2.bias"], find_tensor(tensors, "2.bias")));
    EXPECT_EQ(find_tensor(tensors, "1.num_batches_tracked").scalar_type(), torch::kLong);
  }
}

TEST_F(StateDictTest, IsLoadedInPartByName) {
  auto model = make_model(5);
  auto saved = TorchCheckpoint::from_state_dict(file("model.pt"));
  EXPECT_THAT(error_text_of([&] { saved.load_model(model); }), HasSubstr("2.weight"));
  LoadReport report = saved.load_model(model, {.strict = false});
  EXPECT_THAT(report.other_shape, testing::UnorderedElementsAre("2.weight", "2.bias"));
  EXPECT_EQ(report.loaded.size(), 7u);
}

TEST_F(StateDictTest, IsFoundByItsKey) {
  EXPECT_EQ(read_state_dict(file("checkpoint.pt"), {.key = "model"}).size(), 9u);
  EXPECT_THAT(why_not("checkpoint.pt"),
              AllOf(HasSubstr("ReadStateDictOptions::key"), HasSubstr("epoch (an integer)")));
  EXPECT_THAT(why_not("checkpoint.pt", {.key = "weights"}),
              AllOf(HasSubstr("it has no 'weights'"), HasSubstr("model (a dict)")));
  EXPECT_THAT(why_not("checkpoint.pt", {.key = "loss"}), HasSubstr("'loss' is a float"));
  EXPECT_THAT(why_not("checkpoint.pt", {.key = "optimizer/state"}), HasSubstr("not a tensor"));
}

TEST_F(StateDictTest, OfEveryTypeAndBack) {
  auto tensors = read_state_dict(file("types.pt"));
  ASSERT_EQ(tensors.size(), 17u);
  std::string again = file("types_again.pt");
  write_state_dict(again, tensors);
  EXPECT_EQ(Json::parse(python("read", again)), Json::parse(python("read", file("types.pt"))));
  for (const NamedTensor& each : tensors) {
    Tensor numbers = each.tensor.is_complex() ? torch::real(each.tensor) : each.tensor;
    float last = each.name == "bool" ? 1 : 3;
    EXPECT_EQ(numbers.to(torch::kFloat32)[3].item<float>(), last) << each.name;
  }
}

TEST_F(StateDictTest, OfViewsThatShareTheirMemory) {
  auto tensors = read_state_dict(file("views.pt"));
  Tensor base = find_tensor(tensors, "base");
  EXPECT_TRUE(torch::equal(find_tensor(tensors, "transposed"), base.view({3, 4}).t()));
  EXPECT_TRUE(torch::equal(find_tensor(tensors, "part"), base.slice(0, 4, 8)));
  EXPECT_TRUE(torch::equal(find_tensor(tensors, "every_other"), base.slice(0, 0, 12, 2)));
  EXPECT_EQ(find_tensor(tensors, "empty").sizes(), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(find_tensor(tensors, "number").item<float>(), 7);
  EXPECT_TRUE(torch::equal(find_tensor(tensors, "parameter"), torch::ones(2)));
  base[4] = 100;
  EXPECT_EQ(find_tensor(tensors, "part")[0].item<float>(), 100);
}

TEST_F(StateDictTest, IsReadByPython) {
  torch::manual_seed(5);
  auto model = make_model();
  std::string path = file("exported.pt");
  TorchCheckpoint::from_model(model).to_state_dict(path);
  Json said = Json::parse(python("read", path));
  ASSERT_EQ(said.size(), 9u);
  for (const auto& each : model->named_parameters()) {
    auto values = said.at(each.key()).at("values").get<std::vector<double>>();
    Tensor expected = each.value().detach().to(torch::kFloat64).flatten();
    EXPECT_TRUE(torch::equal(torch::tensor(values, torch::kFloat64), expected)) << each.key();
    EXPECT_EQ(said.at(each.key()).at("shape").get<std::vector<int64_t>>(), each.value().sizes());
  }
  EXPECT_EQ(said.at("1.num_batches_tracked").at("dtype"), "torch.int64");
}

TEST_F(StateDictTest, KeepsTiedWeightsTied) {
  Tensor weight = torch::randn({2, 3});
  std::string path = file("tied.pt");
  write_state_dict(path, {{"a", weight}, {"b", weight}, {"c", weight.t()}});
  Json said = Json::parse(python("read", path));
  EXPECT_EQ(said.at("a").at("shares_with"), Json({"b"}));
  EXPECT_EQ(said.at("c").at("shape"), Json({3, 2}));
}

TEST_F(StateDictTest, AsSafetensorsIsReadByPython) {
  std::string path = file("weights.safetensors");
  auto image = make_safetensors({{"weight", torch::arange(6, torch::kFloat32).view({2, 3})},
                                 {"half", torch::ones({2}, torch::kBFloat16)}});
  std::ofstream out(path, std::ios::binary);
  for (const auto& part : image.parts())
    out.write(static_cast<const char*>(part.data), static_cast<std::streamsize>(part.size));
  out.close();
  Json said = Json::parse(python("safetensors", path));
  EXPECT_EQ(said.at("weight").at("values"), Json({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(said.at("half").at("dtype"), "torch.bfloat16");
}

TEST_F(StateDictTest, WhatIsNoStateDictIsRefusedByName) {
  EXPECT_THAT(why_not("whole_model.pt"), HasSubstr("uses 'torch.nn.modules.container.Sequential'"));
  EXPECT_THAT(why_not("sparse.pt"), HasSubstr("uses 'torch._utils._rebuild_sparse_tensor'"));
  EXPECT_THAT(why_not("conjugated.pt"), HasSubstr("conjugated"));
  EXPECT_THAT(why_not("list.pt"), HasSubstr("holds a list"));
  EXPECT_THAT(why_not("none.pt"), HasSubstr("No such file"));
  std::ofstream(file("text.pt")) << "not a zip archive";
  EXPECT_THAT(why_not("text.pt"), HasSubstr("no file of torch.save"));
}

TEST_F(StateDictTest, ATruncatedOrDamagedFileIsAnError) {
  std::ifstream in(file("model.pt"), std::ios::binary);
  std::string whole(std::istreambuf_iterator<char>(in), {});
  std::string path = file("damaged.pt");
  for (size_t size = 0; size < whole.size(); size += 97) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    EXPECT_NE(error_text_of([&] { read_state_dict(path); }), "") << size;
  }
  for (size_t at = 0; at < whole.size(); at += 31) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      read_state_dict(path);  // a change in bytes without a checksum may go unnoticed
    } catch (const Error&) {
    }
  }
}

TEST_F(StateDictTest, CannotBeWrittenTwiceByAName) {
  Tensor one = torch::ones(1);
  EXPECT_THAT(error_text_of([&] {
                write_state_dict(file("x.pt"), {{"a", one}, {"a", one}});
              }),
              HasSubstr("'a' twice"));
  EXPECT_THAT(error_text_of([&] {
                write_state_dict(file("x.pt"), {{"a", torch::eye(2).to_sparse()}});
              }),
              HasSubstr("sparse"));
  EXPECT_THAT(error_text_of([&] {
                write_state_dict("/dev/null/x.pt", {{"a", one}});
              }),
              HasSubstr("/dev/null/x.pt"));
  EXPECT_FALSE(std::filesystem::exists(file("x.pt")));
}

// Pickles made by hand, as an attacker could make them.
TEST(UnpickleTest, RefusesByName) {
  auto why = [](const std::string& bytes) {
    return error_text_of([&] {
      detail::unpickle(bytes, "'x'", [](const std::string& name) { return name == "a.b"; });
    });
  };
  EXPECT_EQ(why("\x80\x02}."), "");
  EXPECT_THAT(why("\x80\x02"
                  "cos\nsystem\n."),
              HasSubstr("uses 'os.system'"));
  EXPECT_THAT(why("\x80\x02"
                  "X\x02"),
              HasSubstr("ends too early"));
  EXPECT_THAT(why(std::string("\x80\x02X\xff\xff\xff\xff", 7)), HasSubstr("ends too early"));
  EXPECT_THAT(why("\x80\x02R."), HasSubstr("a value is missing"));
  EXPECT_THAT(why("\x80\x02h\x05."), HasSubstr("not there"));
  EXPECT_THAT(why("\x80\x02t."), HasSubstr("mark"));
  EXPECT_THAT(why("\x80\x02"
                  "ca\nb\n}b."),
              HasSubstr("attributes"));
  EXPECT_THAT(why("\x80\x02o."), HasSubstr("opcode 111"));
  EXPECT_THAT(why("\x80\x02" + std::string(2000, '(')), HasSubstr("too deep"));
  EXPECT_EQ(why(std::string("\x80\x02}q\0h\0X\1\0\0\0ah\0s.", 17)), "");  // a dict in itself
}

}  // namespace
}  // namespace manta
