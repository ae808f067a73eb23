#include <arrow/api.h>
#include <gtest/gtest.h>

#include <cmath>

#include "manta/data/codebook_internal.h"
#include "manta/data/parquet_fixture_internal.h"

namespace manta::data {
namespace {

std::vector<uint16_t> codes(Codebook& book, const std::shared_ptr<arrow::Array>& dictionary) {
  auto* found = book.codes_of(dictionary);
  return found ? *found : std::vector<uint16_t>();
}

TEST(CodebookTest, AValueHasOneCodeInAllDictionaries) {
  using Codes = std::vector<uint16_t>;
  for (const auto& type : {arrow::int8(), arrow::int16(), arrow::int32(), arrow::uint64()}) {
    Codebook book(*type);
    EXPECT_EQ(codes(book, array_from_json(type, {5, 7, 5, nullptr})), Codes({1, 2, 1, 0}));
    EXPECT_EQ(codes(book, array_from_json(type, {1, 7, 9})->Slice(1)), Codes({2, 3}));
    EXPECT_EQ(codes(book, array_from_json(type, Json::array())), Codes());
    EXPECT_EQ(book.size(), 4u);
    EXPECT_EQ(book.values()[type->byte_width() * 3], 9);
  }
  for (const auto& type : {arrow::binary(), arrow::large_binary()}) {
    Codebook book(*type);
    EXPECT_EQ(codes(book, array_from_json(type, {"", "Y", "a text of 22 characters", "Y"})),
              Codes({1, 2, 3, 2}));
    EXPECT_EQ(codes(book, array_from_json(type, {"N", "a text of 22 characters"})), Codes({4, 3}));
    EXPECT_EQ(book.most_text_bytes(), 23);
  }
}

TEST(CodebookTest, BitsCountAndNotNumbers) {
  arrow::UInt64Builder builder;
  for (double value : {0.0, -0.0, std::nan("1"), std::nan("2"), 0.0}) {
    check(builder.Append(std::bit_cast<uint64_t>(value)), "test");
  }
  Codebook book(*arrow::uint64());
  EXPECT_EQ(codes(book, check(builder.Finish(), "test")), (std::vector<uint16_t>{1, 2, 3, 4, 1}));
}

TEST(CodebookTest, KnowsADictionaryAgainWhateverHoldsIt) {
  auto values = array_from_json(arrow::int64(), {3, 4});
  Codebook book(*arrow::int64());
  auto* first = book.codes_of(values);
  EXPECT_EQ(book.codes_of(arrow::MakeArray(values->data()->Copy())), first);
  EXPECT_EQ(*book.codes_of(values->Slice(1)), std::vector<uint16_t>({2}));
}

TEST(CodebookTest, TooManyValuesHaveNoCodes) {
  auto numbers = [](int64_t first, int64_t count) {
    arrow::Int64Builder builder;
    for (int64_t i = 0; i < count; ++i) check(builder.Append(first + i), "test");
    return check(builder.Finish(), "test");
  };
  Codebook book(*arrow::int64());
  auto all = numbers(0, Codebook::kMost - 1);
  EXPECT_EQ(codes(book, all).back(), Codebook::kMost - 1);
  EXPECT_EQ(book.codes_of(numbers(1'000'000, 1)), nullptr);
  EXPECT_EQ(book.size(), Codebook::kMost);
  int64_t bytes = book.bytes(), of_values = book.width() * static_cast<int64_t>(book.size());
  EXPECT_GT(bytes, of_values);
  book.close();
  EXPECT_LT(book.bytes(), bytes);
  EXPECT_GE(book.bytes(), of_values);
  EXPECT_EQ(book.values()[book.width()], 0);  // the first value
}

}  // namespace
}  // namespace manta::data
