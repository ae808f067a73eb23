#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/data/generator_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/row_mask_internal.h"

namespace manta::data {
namespace {

// Rows of every kind of column that is filtered in its own way, with nulls or without.
Piece random_piece(int64_t rows, bool nulls, Generator& random) {
  arrow::Int32Builder narrow;
  arrow::DoubleBuilder wide;
  arrow::BooleanBuilder flag;
  arrow::StringBuilder text;
  arrow::Int8Builder tiny;
  for (int64_t i = 0; i < rows; ++i) {
    auto add = [&](auto& builder, const auto& value) {
      check(nulls && random.below(4) == 0 ? builder.AppendNull() : builder.Append(value), "a row");
    };
    add(narrow, static_cast<int32_t>(i));
    add(wide, static_cast<double>(i) / 3);
    add(flag, random.below(2) == 0);
    add(text, str("row ", i));
    add(tiny, static_cast<int8_t>(i % 100));
  }
  Piece piece;
  piece.rows = rows;
  piece.set("narrow", check(narrow.Finish(), "narrow"));
  piece.set("wide", check(wide.Finish(), "wide"));
  piece.set("flag", check(flag.Finish(), "flag"));
  piece.set("text", check(text.Finish(), "text"));
  piece.set("tiny", check(tiny.Finish(), "tiny"));
  return piece;
}

// Row by row, the slow way.
std::shared_ptr<arrow::Array> pick(const arrow::Array& column, const std::vector<int64_t>& rows) {
  auto builder = check(arrow::MakeBuilder(column.type()), "a builder");
  for (int64_t row : rows) {
    check(builder->AppendScalar(*check(column.GetScalar(row), "a value")), "a value");
  }
  return check(builder->Finish(), "a column");
}

TEST(RowMaskTest, KeepsTheRowsThatItShould) {
  Generator random({1});
  for (int64_t rows : {1, 7, 63, 64, 65, 200, 1000}) {
    for (int64_t offset : {0, 3, 8}) {
      for (uint64_t kept_of_ten : {0, 1, 5, 9, 10}) {
        for (bool nulls : {false, true}) {
          Piece piece = random_piece(rows + offset, nulls, random);
          piece.rows = rows;
          arrow::BooleanBuilder builder;
          for (int64_t i = 0; i < rows + offset; ++i) {
            bool is_null = nulls && random.below(20) == 0;
            check(is_null ? builder.AppendNull() : builder.Append(random.below(10) < kept_of_ten),
                  "a condition");
          }
          auto condition = check(builder.Finish(), "conditions")->Slice(offset);
          std::vector<int64_t> expected;
          for (int64_t i = 0; i < rows; ++i) {
            auto& flags = static_cast<const arrow::BooleanArray&>(*condition);
            if (flags.IsValid(i) && flags.Value(i)) expected.push_back(i);
          }
          for (auto& column : piece.columns) column = column->Slice(offset);
          Piece before = piece;
          RowMask mask(rows);
          mask.keep_true(*condition);
          ASSERT_EQ(mask.kept(), static_cast<int64_t>(expected.size()));
          mask.apply(piece);
          EXPECT_TRUE(mask.keeps_all());
          ASSERT_EQ(piece.rows, static_cast<int64_t>(expected.size()));
          for (size_t i = 0; i < piece.columns.size(); ++i) {
            ASSERT_TRUE(piece.columns[i]->ValidateFull().ok());
            ASSERT_TRUE(piece.columns[i]->Equals(*pick(*before.columns[i], expected)))
                << before.names[i] << ", " << rows << " rows from " << offset;
          }
        }
      }
    }
  }
}

TEST(RowMaskTest, ConditionsAddUp) {
  RowMask mask(4);
  mask.keep_true(*array_from_json(arrow::boolean(), {true, true, false, true}));
  EXPECT_EQ(mask.kept(), 3);
  mask.keep_valid(array_from_json(arrow::int64(), {1, nullptr, nullptr, 4}));
  EXPECT_EQ(mask.kept(), 2);
  mask.keep_valid(array_from_json(arrow::float64(), {0.5, 1.0, 1.0, nullptr}));
  EXPECT_EQ(mask.kept(), 1);
  mask.keep_valid(arrow::MakeArrayOfNull(arrow::null(), 4).ValueOrDie());
  EXPECT_EQ(mask.kept(), 0);
}

TEST(RowMaskTest, NaNIsNoValue) {
  const float values[] = {1, NAN, 3, -INFINITY};
  arrow::FloatBuilder builder;
  check(builder.AppendValues(values, 4), "values");
  RowMask mask(4);
  mask.keep_valid(check(builder.Finish(), "values"));
  EXPECT_EQ(mask.kept(), 3);
}

}  // namespace
}  // namespace manta::data
