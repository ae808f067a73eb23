// Lists, arrays, images and bytes as tensors.

#include <arrow/api.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/extension/uuid.h>
#include <arrow/extension_type.h>
#include <gmock/gmock.h>

#include <fstream>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/torch/torch_batches.h"

namespace manta {
namespace {

using data::array_from_json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<arrow::RecordBatch> one_column(const std::shared_ptr<arrow::Array>& array) {
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("c", array->type())}),
                                  array->length(), {array});
}

torch::Tensor counted(torch::IntArrayRef shape, torch::Dtype dtype, int64_t first = 0) {
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  return torch::arange(first, first + count, dtype).reshape(shape);
}

// Nested lists with the numbers 0, 1, 2, ... in them.
Json nested(const std::vector<int64_t>& shape, int64_t& next, size_t depth = 0) {
  if (depth == shape.size()) return next++;
  Json values = Json::array();
  for (int64_t i = 0; i < shape[depth]; ++i) values.push_back(nested(shape, next, depth + 1));
  return values;
}

TEST(TensorShapesTest, ExtensionTypesAreWhatTheyAreStoredAs) {
  int64_t next = 0;
  auto storage = array_from_json(arrow::fixed_size_list(arrow::float32(), 6), nested({4, 6}, next));
  auto type = arrow::extension::fixed_shape_tensor(arrow::float32(), {2, 3});
  auto tensors = arrow::ExtensionType::WrapArray(type, storage);
  auto whole = TorchBatch(one_column(tensors))["c"];
  EXPECT_TRUE(torch::equal(whole, counted({4, 2, 3}, torch::kFloat32)));
  auto some = TorchBatch(one_column(tensors)->Slice(1, 2))["c"];
  EXPECT_TRUE(torch::equal(some, counted({2, 2, 3}, torch::kFloat32, 6)));
  auto none = TorchBatch(one_column(tensors)->Slice(0, 0))["c"];
  EXPECT_THAT(none.sizes(), ElementsAre(0, 2, 3));
  auto lists =
      check(arrow::ListArray::FromArrays(*array_from_json(arrow::int32(), {0, 2, 4}), *tensors),
            "test data");
  EXPECT_TRUE(
      torch::equal(TorchBatch(one_column(lists))["c"], counted({2, 2, 2, 3}, torch::kFloat32)));
  EXPECT_THAT(TorchBatch(one_column(lists)).ragged("c").values.sizes(), ElementsAre(4, 2, 3));
  auto permuted = arrow::extension::fixed_shape_tensor(arrow::float32(), {2, 3}, {1, 0});
  EXPECT_THAT(message_of([&] {
                TorchBatch(one_column(arrow::ExtensionType::WrapArray(permuted, storage)))["c"];
              }),
              AllOf(HasSubstr("'c'"), HasSubstr("another order")));
  auto ids = arrow::ExtensionType::WrapArray(
      arrow::extension::uuid(),
      array_from_json(arrow::fixed_size_binary(16), {"0123456789abcdef"}));
  EXPECT_THAT(TorchBatch(one_column(ids))["c"].sizes(), ElementsAre(1, 16));
}

TEST(TensorShapesTest, NestedFixedSizeListsHaveTheShapeOfTheirType) {
  auto pixels = arrow::fixed_size_list(arrow::uint8(), 3);
  auto type = arrow::fixed_size_list(arrow::fixed_size_list(pixels, 4), 2);
  int64_t next = 0;
  auto images = one_column(array_from_json(type, nested({5, 2, 4, 3}, next)));
  auto whole = TorchBatch(images)["c"];
  EXPECT_EQ(whole.scalar_type(), torch::kUInt8);
  EXPECT_TRUE(torch::equal(whole, counted({5, 2, 4, 3}, torch::kUInt8)));
  // The images lie in the middle of a batch, with another type, and become columns of a matrix.
  TorchBatch some(images->Slice(2, 2));
  EXPECT_TRUE(
      torch::equal(some.column("c", torch::kFloat32), counted({2, 2, 4, 3}, torch::kFloat32, 48)));
  auto with_id =
      check(images->Slice(2, 2)->AddColumn(0, "id", array_from_json(arrow::int64(), {7, 8})),
            "test data");
  auto matrix = TorchBatch(with_id).columns({"id", "c"});
  EXPECT_THAT(matrix.sizes(), ElementsAre(2, 25));
  EXPECT_EQ(matrix[1][0].item<double>(), 8);
  EXPECT_TRUE(torch::equal(matrix.narrow(1, 1, 24), counted({2, 24}, torch::kFloat32, 48)));
}

TEST(TensorShapesTest, ArraysOfFilesHaveTheirShape) {
  TemporaryFolder folder;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, 3), }";
  header.resize(117, ' ');
  header += '\n';
  std::ofstream file(folder / "a.npy", std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << char(118) << char(0) << header;
  for (int i = 0; i < 36; ++i) {
    auto value = static_cast<float>(i);
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  file.close();
  Dataset arrays = data::read_numpy(folder / "a.npy");
  torch::Tensor all;
  for (auto& batch : iter_torch_batches(arrays, {.batch_size = 4})) {
    auto tensor = batch[batch.names()[0]];
    EXPECT_EQ(batch.first_row(), all.defined() ? all.size(0) : 0);
    all = all.defined() ? torch::cat({all, tensor}) : tensor;
  }
  EXPECT_TRUE(torch::equal(all, counted({6, 2, 3}, torch::kFloat32)));
}

TEST(TensorShapesTest, ListsAndBytesOfEqualLength) {
  int64_t next = 0;
  for (const auto& type : {arrow::list(arrow::int32()), arrow::large_list(arrow::int32()),
                           arrow::fixed_size_list(arrow::int32(), 3)}) {
    SCOPED_TRACE(type->ToString());
    next = 0;
    auto batch = one_column(array_from_json(type, nested({4, 3}, next)));
    EXPECT_TRUE(torch::equal(TorchBatch(batch)["c"], counted({4, 3}, torch::kInt32)));
    EXPECT_TRUE(
        torch::equal(TorchBatch(batch->Slice(1, 2))["c"], counted({2, 3}, torch::kInt32, 3)));
    EXPECT_THAT(TorchBatch(batch->Slice(0, 0))["c"].size(0), 0);
  }
  next = 0;
  auto deep = arrow::list(arrow::fixed_size_list(arrow::large_list(arrow::float64()), 2));
  auto batch = one_column(array_from_json(deep, nested({3, 1, 2, 2}, next)));
  EXPECT_TRUE(
      torch::equal(TorchBatch(batch->Slice(1))["c"], counted({2, 1, 2, 2}, torch::kFloat64, 4)));
  for (const auto& type : {arrow::binary(), arrow::large_binary(), arrow::fixed_size_binary(2)}) {
    SCOPED_TRACE(type->ToString());
    auto bytes = one_column(array_from_json(type, {"ab", "cd", "ef"}));
    EXPECT_TRUE(torch::equal(TorchBatch(bytes->Slice(1))["c"],
                             torch::tensor({{'c', 'd'}, {'e', 'f'}}).to(torch::kUInt8)));
  }
}

TEST(TensorShapesTest, RaggedListsAreValuesAndOffsetsOrPadded) {
  auto type = arrow::list(arrow::int64());
  auto rows = one_column(array_from_json(type, {{9}, {1, 2}, Json::array(), {3, 4, 5}}));
  TorchBatch batch(rows->Slice(1));
  EXPECT_THAT(message_of([&] { batch["c"]; }),
              AllOf(HasSubstr("column 'c' of type list<"),
                    HasSubstr("row 1 of the batch has a value of 0 elements, and those before it "
                              "have 2"),
                    HasSubstr("batch.ragged(\"c\")"), HasSubstr(".padding = {{\"c\", {}}}")));
  RaggedTensor ragged = batch.ragged("c");
  EXPECT_TRUE(torch::equal(ragged.values, torch::tensor({1, 2, 3, 4, 5}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(ragged.offsets, torch::tensor({0, 2, 2, 5}, torch::kInt64)));
  EXPECT_EQ(batch.ragged("c", torch::kFloat32).values.scalar_type(), torch::kFloat32);

  TorchBatch padded(rows->Slice(1), {}, {{"c", {.value = -1}}});
  EXPECT_TRUE(torch::equal(padded["c"],
                           torch::tensor({{1, 2, -1}, {-1, -1, -1}, {3, 4, 5}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(padded.columns({"c"}), padded["c"].to(torch::kFloat32)));
  TorchBatch longer(rows, {}, {{"c", {.length = 4}}});
  EXPECT_TRUE(torch::equal(longer["c"][3], torch::tensor({3, 4, 5, 0}, torch::kInt64)));
  EXPECT_THAT(message_of([&] {
                TorchBatch(rows, {}, {{"c", {.length = 2}}})["c"];
              }),
              HasSubstr("row 3 of the batch has 3 elements, and its padding is of length 2"));
  EXPECT_THAT(message_of([&] {
                TorchBatch(rows, {}, {{"c", {.value = 0.5}}})["c"];
              }),
              HasSubstr("padding of column 'c' with 0.5, which torch::kInt64 cannot hold"));
  EXPECT_THAT(message_of([&] {
                TorchBatch(rows, {}, {{"C", {}}});
              }),
              HasSubstr("there is no column 'C'; did you mean 'c'?"));
  EXPECT_THAT(message_of([&] { longer.ragged("c", torch::kBool); }),
              HasSubstr("row 0 of the batch holds 9, which torch::kBool"));
  auto vectors = array_from_json(arrow::list(arrow::fixed_size_list(arrow::float32(), 2)),
                                 {{{1, 2}}, {{3, 4}, {5, 6}}});
  TorchBatch paths(one_column(vectors), {}, {{"c", {}}});
  EXPECT_THAT(paths["c"].sizes(), ElementsAre(2, 2, 2));
  EXPECT_EQ(paths["c"][1][1][0].item<double>(), 5);
  EXPECT_EQ(paths["c"][0][1].sum().item<double>(), 0);
  EXPECT_THAT(paths.ragged("c").values.sizes(), ElementsAre(3, 2));
}

TEST(TensorShapesTest, WhatHasNoShapeIsRefused) {
  struct Case {
    std::shared_ptr<arrow::DataType> type;
    Json values;
    std::vector<std::string> message;
  };
  auto inner = arrow::list(arrow::list(arrow::int8()));
  std::vector<Case> cases = {
      {arrow::utf8(), {"a"}, {"OrdinalEncoder", "OneHotEncoder", "Tokenizer"}},
      {arrow::large_utf8(), {"a"}, {"OrdinalEncoder", "OneHotEncoder", "Tokenizer"}},
      {arrow::list(arrow::utf8()), {{"a"}}, {"list<", "MultiHotEncoder"}},
      {arrow::list(arrow::int8()), {{1}, nullptr}, {"null in row 1", "drop_na"}},
      {arrow::binary(), {"a", nullptr}, {"null in row 1", "drop_na"}},
      {inner, {{{1}}, {{1}}, {{1, 2}}}, {"row 2 of the batch", "lists within lists"}},
      {inner, {{{1}}, {nullptr}}, {"null in row 1"}},
      {arrow::struct_({arrow::field("x", arrow::int8())}), {{{"x", 1}}}, {"map_batches"}},
      {arrow::map(arrow::utf8(), arrow::int8()), Json::array({Json::array()}), {"map_batches"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.type->ToString());
    std::string message =
        message_of([&] { TorchBatch(one_column(array_from_json(c.type, c.values)))["c"]; });
    EXPECT_THAT(message, HasSubstr("column 'c'"));
    for (const auto& part : c.message) EXPECT_THAT(message, HasSubstr(part));
  }
  TorchBatch numbers(one_column(array_from_json(arrow::int8(), {1})), {}, {{"c", {}}});
  EXPECT_THAT(message_of([&] { numbers["c"]; }), HasSubstr("whose values all have one shape"));
  // A null within a list is a missing number.
  TorchBatch holes(one_column(array_from_json(arrow::list(arrow::float32()), {{1, nullptr}})));
  EXPECT_TRUE(holes["c"][0][1].isnan().item<bool>());
}

}  // namespace
}  // namespace manta
