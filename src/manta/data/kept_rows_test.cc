#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/data/expression_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/kept_rows_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/data/wide_types_internal.h"

namespace manta::data {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

ArrayPtr array_of(const std::shared_ptr<arrow::DataType>& type, const char* values) {
  return array_from_json(type, Json::parse(values));
}

// Batches of a column, a key, and the place.
KeptRows rows_with(arrow::ArrayVector columns) {
  int64_t batch = 0;
  return KeptRows(
      {plain_type(columns[0]->type())}, [=]() mutable -> std::shared_ptr<arrow::RecordBatch> {
        if (batch == std::ssize(columns)) return nullptr;
        auto column = columns[static_cast<size_t>(batch)];
        int64_t rows = column->length();
        return lanes_batch(
            {column, numbers_from(100 * batch, rows), KeptRows::places(batch++, rows)}, rows);
      });
}

ArrayPtr places_of(const std::vector<std::pair<int64_t, int64_t>>& rows) {
  arrow::Int64Builder builder;
  for (auto [batch, row] : rows) {
    auto place = KeptRows::places(batch, row + 1);
    check(batch < 0 ? builder.AppendNull()
                    : builder.Append(static_cast<const arrow::Int64Array&>(*place).Value(row)),
          "places");
  }
  return check(builder.Finish(), "places");
}

void expect_gathered(const arrow::ArrayVector& columns, const char* expected,
                     const std::shared_ptr<arrow::DataType>& type) {
  SCOPED_TRACE(columns[0]->type()->ToString());
  KeptRows kept = rows_with(columns);
  int64_t room = 1 << 20;
  ASSERT_TRUE(kept.keep_all(room));
  EXPECT_LT(room, 1 << 20);
  EXPECT_EQ(kept.rows(), 5);
  auto given = kept.gather({0}, *places_of({{1, 1}, {0, 2}, {0, 0}, {1, 0}, {0, 1}, {1, 1}}))[0];
  check(given->ValidateFull(), "gathered");
  EXPECT_TRUE(given->Equals(*array_of(type, expected))) << given->ToString();
}

TEST(KeptRowsTest, GathersByPlace) {
  using namespace arrow;  // NOLINT
  for (const auto& type : {int8(), uint16(), int32(), uint64(), int64(), float64()}) {
    expect_gathered({array_of(type, "[1, 2, 3]"), array_of(type, "[4, 5]")}, "[5, 3, 1, 4, 2, 5]",
                    type);
    expect_gathered({array_of(type, "[1, null, 3]"), array_of(type, "[4, 5]")},
                    "[5, 3, 1, 4, null, 5]", type);
    // Views into longer columns, whose bits begin in the middle of a byte.
    expect_gathered({array_of(type, "[9, null, 1, 2, null, 7]")->Slice(2, 3),
                     array_of(type, "[8, 4, 5]")->Slice(1)},
                    "[5, null, 1, 4, 2, 5]", type);
  }
  auto sixteen = fixed_size_binary(16);
  expect_gathered({array_of(sixteen, R"(["0123456789abcdef", null, "fedcba9876543210"])"),
                   array_of(sixteen, R"([null, "ABCDEFGHIJKLMNOP"])")},
                  R"(["ABCDEFGHIJKLMNOP", "fedcba9876543210", "0123456789abcdef", null, null,
                      "ABCDEFGHIJKLMNOP"])",
                  sixteen);
  for (const auto& type : {binary(), large_binary()}) {
    expect_gathered({array_of(type, R"(["x", "", "a", null, "longer than twelve"])")->Slice(2),
                     array_of(type, R"(["b", ""])")},
                    R"(["", "longer than twelve", "a", "b", null, ""])", large_binary());
  }
}

ArrayPtr coded(const ArrayPtr& indices, const ArrayPtr& dictionary) {
  return std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(arrow::int32(), dictionary->type()), indices, dictionary);
}

ArrayPtr numbers_of(int64_t first, int64_t count) { return numbers_from(first, count); }

// A column is kept as codes of a byte, of two, and as values, as more and more come.
TEST(KeptRowsTest, FormsOfAColumnChangeAndRowsDoNot) {
  arrow::ArrayVector given;
  auto add = [&](int64_t first, int64_t count) {
    arrow::Int32Builder indices;
    for (int64_t i = 0; i < 3'000; ++i) {
      check(i % 10 == 0 ? indices.AppendNull()
                        : indices.Append(static_cast<int32_t>(i * 7919 % count)),
            "test");
    }
    given.push_back(coded(check(indices.Finish(), "test"), numbers_of(first, count)));
  };
  add(0, 50);
  add(20, 200);
  add(1'000, 100);
  add(100'000, 40'000);
  given.push_back(given[0]->Slice(1'500, 700));
  add(200'000, 60'000);
  add(0, 50);
  given.push_back(numbers_of(5, 10));
  arrow::ArrayVector plain;
  for (const auto& column : given) {
    bool is_coded = column->type_id() == arrow::Type::DICTIONARY;
    plain.push_back(is_coded ? plain_column(column) : column);
  }
  int64_t batch = 0;
  KeptRows kept({arrow::int64()}, [&]() -> std::shared_ptr<arrow::RecordBatch> {
    if (batch == std::ssize(given)) return nullptr;
    auto column = given[static_cast<size_t>(batch)];
    return lanes_batch({column, KeptRows::places(batch++, column->length())}, column->length());
  });
  int64_t room = 64 << 20;
  ASSERT_TRUE(kept.keep_all(room));
  arrow::Int64Builder places, rows;
  int64_t all = 0;
  auto together = check(arrow::Concatenate(plain), "test");
  std::vector<int64_t> place_of;
  for (int64_t i = 0; i < std::ssize(plain); ++i) {
    for (int64_t row = 0; row < plain[static_cast<size_t>(i)]->length(); ++row, ++all) {
      place_of.push_back((i << 32) + row);
    }
  }
  for (int64_t i = 0; i < 20'000; ++i) {
    int64_t row = i * 104'729 % all;
    check(rows.Append(row), "test");
    check(places.Append(place_of[static_cast<size_t>(row)]), "test");
  }
  auto gathered = kept.gather({0}, *check(places.Finish(), "test"))[0];
  check(gathered->ValidateFull(), "gathered");
  EXPECT_TRUE(gathered->Equals(*take_rows(*together, *check(rows.Finish(), "test"))));
}

TEST(KeptRowsTest, CodesTakeLittleRoomAndGoOnAsValues) {
  auto texts = array_of(arrow::binary(), R"(["a text that is not short", "no"])");
  auto column = coded(array_of(arrow::int32(), "[0, 1, null, 0, 0]"), texts);
  KeptRows kept = rows_with({column, column->Slice(1, 2)});
  int64_t room = 1 << 20;
  ASSERT_TRUE(kept.keep_all(room));
  EXPECT_EQ(kept.most_text_bytes(), 24);
  EXPECT_EQ(kept.text_bytes(0), 24);
  EXPECT_EQ(kept.text_bytes(1), 2);
  EXPECT_EQ(kept.text_bytes(2), 0);
  EXPECT_TRUE(kept.gather({0}, *places_of({{1, 0}, {0, 0}, {0, 2}, {1, 1}}))[0]->Equals(
      *array_of(arrow::large_binary(), R"(["no", "a text that is not short", null, null])")));

  KeptRows more = rows_with({column, column->Slice(1, 2)});
  room = 1;
  ASSERT_FALSE(more.keep_all(room));
  auto first = more.next()->column(0), second = more.next()->column(0);
  EXPECT_TRUE(first->Equals(*array_of(arrow::large_binary(),
                                      R"(["a text that is not short", "no", null,
                                          "a text that is not short",
                                          "a text that is not short"])")));
  EXPECT_TRUE(second->Equals(*array_of(arrow::binary(), R"(["no", null])")));
}

TEST(KeptRowsTest, NoPlaceIsNull) {
  KeptRows kept = rows_with({array_of(arrow::int32(), "[1, 2]"), array_of(arrow::int32(), "[3]")});
  int64_t room = 1 << 20;
  ASSERT_TRUE(kept.keep_all(room));
  EXPECT_TRUE(kept.gather({0}, *places_of({{-1, 0}, {1, 0}, {-1, 0}, {0, 1}}))[0]->Equals(
      *array_of(arrow::int32(), "[null, 3, null, 2]")));
  KeptRows empty({arrow::large_binary()}, [] { return nullptr; });
  ASSERT_TRUE(empty.keep_all(room));
  EXPECT_EQ(empty.next_keys(), nullptr);
  auto nothing = empty.gather({0}, *places_of({{-1, 0}, {-1, 0}}))[0];
  EXPECT_EQ(nothing->null_count(), 2);
  EXPECT_EQ(nothing->type_id(), arrow::Type::LARGE_BINARY);
}

TEST(KeptRowsTest, GivesKeysOrAllOfWhatItKept) {
  arrow::ArrayVector columns = {array_of(arrow::int64(), "[1, 2]"),
                                array_of(arrow::int64(), "[3]")};
  KeptRows kept = rows_with(columns);
  int64_t room = 1 << 20;
  ASSERT_TRUE(kept.keep_all(room));
  EXPECT_EQ(kept.next_keys()->num_columns(), 2);
  EXPECT_TRUE(kept.next_keys()->column(0)->Equals(*array_of(arrow::int64(), "[100]")));
  EXPECT_EQ(kept.next_keys(), nullptr);

  // More than there is room for: what was taken comes first, then the rest.
  KeptRows more = rows_with(columns);
  room = 1;
  ASSERT_FALSE(more.keep_all(room));
  EXPECT_EQ(room, 0);
  EXPECT_EQ(more.rows(), 2);
  EXPECT_TRUE(more.next()->column(0)->Equals(*columns[0]));
  EXPECT_TRUE(more.next()->column(0)->Equals(*columns[1]));
  EXPECT_EQ(more.next(), nullptr);
}

// More columns than a byte has bits, of all widths, and more rows than a block; against Arrow's
// Take.
TEST(KeptRowsTest, ColumnsOfARowStayTogether) {
  constexpr int64_t kRows = 3000, kFirst = 1100;
  std::vector<std::shared_ptr<arrow::DataType>> types;
  arrow::ArrayVector columns;
  for (int64_t i = 0; i < 18; ++i) {
    types.push_back(std::vector{arrow::int8(), arrow::large_binary(), arrow::int64(),
                                arrow::int16(), arrow::fixed_size_binary(16),
                                arrow::int32()}[static_cast<size_t>(i % 6)]);
    Json values = Json::array();
    for (int64_t row = 0; row < kRows; ++row) {
      if (i % 4 == 1 && (row + i) % 5 == 0) {
        values.push_back(nullptr);
      } else if (i % 6 == 1) {
        values.push_back(std::string(static_cast<size_t>((row + i) % 20), 'a') + str(row % 10));
      } else if (i % 6 == 4) {
        values.push_back(str(1'000'000'000'000'000 + row * i));
      } else {
        values.push_back((row * 31 + i) % 100);
      }
    }
    columns.push_back(array_from_json(types.back(), values));
  }
  int64_t batch = 0;
  KeptRows kept(types, [&]() -> std::shared_ptr<arrow::RecordBatch> {
    if (batch == 2) return nullptr;
    arrow::ArrayVector lanes;
    for (const auto& column : columns) {
      lanes.push_back(batch == 0 ? column->Slice(0, kFirst) : column->Slice(kFirst));
    }
    int64_t rows = lanes[0]->length();
    lanes.push_back(KeptRows::places(batch++, rows));
    return lanes_batch(std::move(lanes), rows);
  });
  int64_t room = 64 << 20;
  ASSERT_TRUE(kept.keep_all(room));
  std::vector<std::pair<int64_t, int64_t>> places;
  arrow::Int64Builder turned;
  for (int64_t row = kRows; row-- > 0;) {
    places.emplace_back(row < kFirst ? 0 : 1, row < kFirst ? row : row - kFirst);
    check(turned.Append(row), "rows");
  }
  auto rows = check(turned.Finish(), "rows");
  std::vector<int> numbers = {17, 1, 4, 0, 2, 3, 13, 5};
  auto given = kept.gather(numbers, *places_of(places));
  start_compute();
  for (size_t i = 0; i < numbers.size(); ++i) {
    check(given[i]->ValidateFull(), "gathered");
    auto expected = take_rows(*columns[static_cast<size_t>(numbers[i])], *rows);
    EXPECT_TRUE(given[i]->Equals(*expected)) << numbers[i];
  }
}

TEST(KeptRowsTest, CountsTextsThatAreNotInRows) {
  auto bytes_of = [](const char* values) {
    int64_t room = 1 << 20;
    EXPECT_TRUE(rows_with({array_of(arrow::binary(), values)}).keep_all(room));
    return (1 << 20) - room;
  };
  EXPECT_EQ(bytes_of(R"(["short", ""])"), bytes_of(R"(["", ""])"));
  EXPECT_EQ(bytes_of(R"(["nine byte", ""])"), bytes_of(R"(["", ""])") + 9);
}

TEST(KeptRowsTest, CountsTextsOfKeysOnce) {
  auto bytes_of = [](const ArrayPtr& column, const ArrayPtr& key) {
    bool given = false;
    KeptRows kept({column->type()}, [&]() -> std::shared_ptr<arrow::RecordBatch> {
      if (std::exchange(given, true)) return nullptr;
      return lanes_batch({column, key, KeptRows::places(0, 2)}, 2);
    });
    int64_t room = 1 << 20;
    EXPECT_TRUE(kept.keep_all(room));
    return (1 << 20) - room;
  };
  auto numbers = array_of(arrow::int64(), "[1, 2]");
  auto key = array_of(arrow::binary(), R"(["a key of 19 bytes..", "b"])");
  int64_t without = bytes_of(numbers, numbers);
  EXPECT_EQ(bytes_of(numbers, key), without + 20);
  // A column that is its own key is there once.
  EXPECT_EQ(bytes_of(key, key), bytes_of(key, numbers));
  // Rows have its short texts in them, and nothing but the key holds the column.
  auto few = array_of(arrow::binary(), R"(["ab", "c"])");
  EXPECT_EQ(bytes_of(few, few), bytes_of(few, numbers) + 3);
}

// Texts of 6 MiB among many short ones.
TEST(GatheredPartsTest, HaveFewLargeRows) {
  arrow::LargeBinaryBuilder builder;
  for (int i = 0; i < 3000; ++i) {
    check(builder.Append(i == 7 ? std::string(6 << 20, 'x') : str(i)), "texts");
  }
  KeptRows kept = rows_with({check(builder.Finish(), "texts")});
  int64_t room = 64 << 20;
  ASSERT_TRUE(kept.keep_all(room));
  EXPECT_EQ(kept.most_text_bytes(), 6 << 20);
  auto places_at = [](const std::vector<int64_t>& rows) {
    std::vector<std::pair<int64_t, int64_t>> places;
    for (int64_t row : rows) places.emplace_back(row < 0 ? -1 : 0, row);
    return places_of(places);
  };
  auto large = places_at({7, 7, 7, 1, 7, -1, 7});
  GatheredParts of_one({&kept});
  auto batch = lanes_batch({large}, 7);
  EXPECT_EQ(of_one.rows(*batch, 0), 2);
  EXPECT_EQ(of_one.rows(*batch, 2), 4);
  EXPECT_EQ(of_one.rows(*batch, 5), 2);
  // Of two sides, both count.
  GatheredParts of_two({&kept, &kept});
  auto pairs = lanes_batch({large, large}, 7);
  EXPECT_EQ(of_two.rows(*pairs, 0), 1);
  EXPECT_EQ(of_two.rows(*pairs, 3), 3);
  // Short ones are as many as usual.
  auto short_ones = places_at(std::vector<int64_t>(10'000, 8));
  EXPECT_LT(kept.rows_at_a_time(), 10'000);
  EXPECT_EQ(of_one.rows(*lanes_batch({short_ones}, 10'000), 0), kept.rows_at_a_time());
}

}  // namespace
}  // namespace manta::data
