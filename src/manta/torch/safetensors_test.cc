#include "manta/torch/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "manta/base/error_internal.h"
#include "manta/base/temporary_folder_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

// From expected/make_safetensors_expected.py.
constexpr unsigned char kExpected[] = {
#include "manta/torch/expected/safetensors_expected.inc"
};
const std::string kImage(reinterpret_cast<const char*>(kExpected), sizeof(kExpected));

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() : path_(manta::str(testing::TempDir(), "safetensors-", ::getpid())) {}
  ~SafetensorsTest() override { std::filesystem::remove(path_); }

  Safetensors read(const std::string& image) {
    std::ofstream(path_, std::ios::binary) << image;
    return read_safetensors(path_);
  }
  static std::string join(const SafetensorsImage& image) {
    std::string joined;
    for (const auto& part : image.parts()) {
      joined.append(static_cast<const char*>(part.data), part.size);
    }
    return joined;
  }
  /// The message of the error that reading it gives.
  std::string error_of(const std::string& image) {
    try {
      read(image);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.what(), HasSubstr(path_));
      return error.what();
    }
    return "no error";
  }

  std::string path_;
};

std::string with_header(const std::string& header, const std::string& data = "") {
  uint64_t length = header.size();
  std::string image(sizeof(length), '\0');
  std::memcpy(image.data(), &length, sizeof(length));
  return image + header + data;
}

TEST_F(SafetensorsTest, ReadsWhatPythonWrites) {
  Safetensors file = read(kImage);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors.size(), 10u);
  auto expect = [&](const char* name, const torch::Tensor& expected) {
    EXPECT_EQ(file.tensors.at(name).scalar_type(), expected.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(file.tensors.at(name), expected)) << name;
  };
  expect("counts", torch::tensor({int64_t{-1}, int64_t{1} << 40}));
  expect("precise", torch::tensor(0.1, torch::kDouble));
  expect("a.weight", torch::tensor({0.f, 1.f, -2.f, 3.5f, 1e-30f, INFINITY}).view({2, 3}));
  expect("empty", torch::empty({0, 4}));
  expect("scalar", torch::tensor(42.f));
  expect("brain", torch::tensor({1, -2}, torch::kBFloat16));
  expect("half", torch::tensor({1, -2, 65504}, torch::kHalf));
  expect("small", torch::tensor({-7}, torch::kInt8));
  expect("bytes", torch::tensor({0, 128, 255}, torch::kUInt8));
  expect("flags", torch::tensor({true, false, true}));
}

TEST_F(SafetensorsTest, WritesWhatPythonWrites) {
  Safetensors file = read(kImage);
  std::vector<NamedTensor> tensors;
  for (auto& [name, tensor] : file.tensors) tensors.push_back({name, tensor});
  EXPECT_EQ(join(make_safetensors(tensors, file.metadata)), kImage);
}

TEST_F(SafetensorsTest, KeepsEveryType) {
  std::vector<NamedTensor> tensors;
  for (auto type : {torch::kBool, torch::kUInt8, torch::kInt8, torch::kInt16, torch::kUInt16,
                    torch::kInt32, torch::kUInt32, torch::kInt64, torch::kUInt64, torch::kHalf,
                    torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kFloat8_e5m2,
                    torch::kFloat8_e4m3fn, torch::kComplexFloat}) {
    tensors.push_back({c10::toString(type), torch::arange(5, torch::kFloat).to(type)});
  }
  Safetensors file = read(join(make_safetensors(tensors)));
  for (const NamedTensor& item : tensors) {
    const torch::Tensor& got = file.tensors.at(item.name);
    ASSERT_EQ(got.scalar_type(), item.tensor.scalar_type());
    EXPECT_EQ(std::memcmp(got.data_ptr(), item.tensor.data_ptr(), got.nbytes()), 0) << item.name;
  }
}

TEST_F(SafetensorsTest, TensorsOutliveTheFileAndDoNotChangeIt) {
  torch::Tensor weight = read(kImage).tensors.at("a.weight");
  weight.fill_(7);
  EXPECT_EQ(weight.sum().item<float>(), 42);
  EXPECT_EQ(read_safetensors(path_).tensors.at("a.weight")[0][1].item<float>(), 1);
}

TEST_F(SafetensorsTest, ReadsUnalignedTensors) {
  std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  float value = 1.5;
  std::string data(5, 'x');
  std::memcpy(data.data() + 1, &value, 4);
  EXPECT_EQ(read(with_header(header, data)).tensors.at("b").item<float>(), 1.5);
}

TEST_F(SafetensorsTest, RefusesWhatItCannotWrite) {
  torch::Tensor one = torch::ones({1});
  EXPECT_THROW(make_safetensors({{"a", one}, {"a", one}}), Error);
  EXPECT_THROW(make_safetensors({{"__metadata__", one}}), Error);
  EXPECT_THROW(make_safetensors({{"a", one.to(torch::kComplexDouble)}}), Error);
}

TEST_F(SafetensorsTest, NamesWhatIsWrong) {
  EXPECT_THROW(read_safetensors(path_ + "-none"), Error);
  struct Case {
    std::string image, message;
  };
  auto ones = [](int count) {
    std::string list = "1";
    for (int i = 1; i < count; ++i) list += ",1";
    return list;
  };
  auto one = [](const std::string& entry, const std::string& data = "abcd") {
    return with_header(R"({"w":)" + entry + "}", data);
  };
  const Case cases[] = {
      {"", "only 0 bytes"},
      {"1234567", "only 7 bytes"},
      {std::string(8, '\xff'), "its header would have"},
      {kImage.substr(0, 100), "its header would have"},
      {kImage.substr(0, kImage.size() - 1), "cut off"},
      {kImage + "x", "1 bytes after the last tensor"},
      {with_header(""), "not a JSON object"},
      {with_header("[1]"), "not a JSON object"},
      {with_header("{\"w\":"), "not JSON"},
      {with_header(std::string(1000, '{')), "not JSON"},
      {with_header(R"({"w":)" + std::string(3'000'000, '[')), "more than 3 arrays and objects"},
      {with_header(R"({"w":{"dtype":"F32","dtype":"F64","shape":[],"data_offsets":[0,4]}})"),
       "the key \"dtype\" twice"},
      {with_header("{\"\xff\":1}"), "not JSON"},
      {std::string("\x00\xe1\xf5\x05\0\0\0\0{", 9), "its header would have 100000000 bytes"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "its header would have"},
      {one("3"), "'w' must have dtype, shape and data_offsets"},
      {one(R"({"dtype":"F32","shape":[1]})"), "'w' must have"},
      {one(R"({"dtype":"F99","shape":[1],"data_offsets":[0,4]})"), "unknown dtype \"F99\""},
      {one(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})"), "dtype that is not a string"},
      {one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), "shape that is not an array"},
      {one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), "-1 is not a size"},
      {one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), "1.5 is not a size"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), "needs 8 bytes"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), "needs 4 bytes"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})"), "two data_offsets"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "'w' begins at 4"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "abc"), "cut off"},
      {one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), "too large"},
      {one(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]})"), "too large"},
      {one(R"({"dtype":"U8","shape":[4611686018427387904,2,0],"data_offsets":[0,0]})"),
       "too large"},
      {one(R"({"dtype":"F64","shape":[0,2305843009213693952],"data_offsets":[0,0]})"), "too large"},
      {one(R"({"dtype":"F32","shape":[1e300],"data_offsets":[0,4]})"), "1e+300 is not a size"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]})"), "needs 4"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0]})"), "needs 4"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":["0","4"]})"), "\"0\" is not a size"},
      {one(R"({"dtype":"U8","shape":[)" + ones(65) + R"(],"data_offsets":[0,1]})"),
       "has 65 dimensions"},
      {with_header(R"({"__metadata__":{"a":1}})"), "'a' is not a string"},
      {with_header(R"({"__metadata__":[]})"), "not an object"},
      {with_header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                   R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                   "abc"),
       "'b' begins at 1"},
      {with_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                   "a"),
       "the key \"a\" twice"},
  };
  for (const Case& c : cases) EXPECT_THAT(error_of(c.image), HasSubstr(c.message)) << c.message;
}

TEST_F(SafetensorsTest, OnlyFilesAreRead) {
  TemporaryFolder folder;
  std::string link = folder / "link", pipe = folder / "pipe";
  read(kImage);
  std::filesystem::create_symlink(path_, link);  // as in the caches of model hubs
  EXPECT_EQ(read_safetensors(link).tensors.size(), 10u);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), folder.path()}) {
    try {
      read_safetensors(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
}

TEST_F(SafetensorsTest, WhatWouldNotBeReadAgainIsNotWritten) {
  try {
    make_safetensors({{std::string(100'000'000, 'x'), torch::zeros({1})}}, {});
    FAIL() << "a header of more than 100 MB";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("put them into several files"));
  }
}

}  // namespace
}  // namespace manta
