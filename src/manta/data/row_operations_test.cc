// rename_columns, fill_na, cast, add_column, limit, random_sample.

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <optional>

#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

BatchPtr same_rows(const BatchPtr& batch) { return batch; }
const auto named_same_rows = named("test_same_rows", same_rows);

Dataset stored_and_loaded(const Dataset& dataset) {
  return Dataset::from_json(Json::parse(dataset.to_json().dump()));
}

TEST(RowOperationsTest, RenamedColumnsStayWhereTheyAre) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 20));
  auto renamed = rows.rename_columns({{"id", "half"}, {"half", "id"}, {"text", "word"}});
  EXPECT_THAT(renamed.columns(), ElementsAre("half", "id", "word"));
  EXPECT_EQ(ints(*renamed.to_table(), "half"), ints(*rows.to_table(), "id"));
  EXPECT_EQ(renamed.filter(col("half") >= 45).count(), 5);
  EXPECT_THAT(columns_used(*renamed.select_columns({"word"}).plan()).read,
              ElementsAre("id", "half", "text"));
  EXPECT_TRUE(stored_and_loaded(renamed).to_table()->Equals(*renamed.to_table()));
  EXPECT_THAT(message_of(ErrorKind::kNotFound,
                         [&] {
                           rows.rename_columns({{"idd", "x"}});
                         }),
              AllOf(HasSubstr("rename_columns(idd as x)"), HasSubstr("'id'")));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           rows.rename_columns({{"id", "text"}});
                         }),
              HasSubstr("text"));
  // Where the columns are known by running only.
  auto later = rows.map_batches(same_rows).rename_columns({{"idd", "x"}});
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { later.to_table(); }),
              HasSubstr("rename_columns(idd as x)"));
}

// JSON has no NaN.
std::shared_ptr<arrow::Array> numbers(const std::shared_ptr<arrow::DataType>& type,
                                      const std::vector<std::optional<double>>& values) {
  arrow::DoubleBuilder builder;
  for (const auto& value : values) {
    check(value ? builder.Append(*value) : builder.AppendNull(), "a number");
  }
  return check(arrow::compute::Cast(*check(builder.Finish(), "numbers"), type), "numbers");
}

TEST(RowOperationsTest, FillNaFillsNullsAndNaN) {
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("i", arrow::int32()), arrow::field("f", arrow::float32()),
                     arrow::field("t", arrow::utf8()), arrow::field("d", arrow::date32())}),
      {array_from_json(arrow::int32(), {1, nullptr}),
       check(arrow::compute::Cast(*array_from_json(arrow::utf8(), {"nan", nullptr}),
                                  arrow::float32()),
             "floats"),
       array_from_json(arrow::utf8(), {nullptr, "b"}),
       array_from_json(arrow::date32(), {nullptr, 1})});
  Dataset rows = from_arrow(table);
  auto filled = rows.fill_na(7).to_table();
  EXPECT_EQ(filled->schema()->ToString(), table->schema()->ToString());
  EXPECT_EQ(scalar_text(*filled, "i", 1), "7");
  EXPECT_EQ(scalar_text(*filled, "f", 0), "7");
  EXPECT_EQ(scalar_text(*filled, "f", 1), "7");
  EXPECT_EQ(scalar_text(*filled, "t", 0), "null");
  EXPECT_EQ(scalar_text(*rows.fill_na("x").to_table(), "t", 0), "x");
  EXPECT_EQ(scalar_text(*rows.fill_na("x").to_table(), "i", 1), "null");
  auto halves = rows.fill_na(0.5, {.columns = {"i"}});
  EXPECT_EQ(halves.schema()->GetFieldByName("i")->type()->ToString(), "double");
  EXPECT_EQ(scalar_text(*halves.to_table(), "i", 1), "0.5");
  EXPECT_TRUE(halves.to_table()->schema()->Equals(*halves.schema()));
  message_of([&] { rows.fill_na(1, {.columns = {"t"}}); });
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { rows.fill_na(1, {.columns = {"x"}}); }),
              HasSubstr("fill_na(1 in x)"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.fill_na(col("i")); }),
              HasSubstr("needs a constant"));
  auto half = from_arrow(arrow::Table::Make(arrow::schema({arrow::field("h", arrow::float16())}),
                                            {array_from_json(arrow::float16(), {1.5, nullptr})}));
  EXPECT_EQ(scalar_text(*half.fill_na(7).to_table(), "h", 1), "7");
  EXPECT_EQ(scalar_text(*half.fill_na(0.1).to_table(), "h", 1), "0.0999755859375");
  auto floats =
      from_arrow(arrow::Table::Make(arrow::schema({arrow::field("f", arrow::float32())}),
                                    {numbers(arrow::float32(), {1.5, std::nullopt, NAN, 0.1})}));
  for (const auto& options : {FillNaOptions{}, FillNaOptions{.columns = {"f"}}}) {
    auto tenths = floats.fill_na(0.1, options);
    EXPECT_TRUE(tenths.schema()->Equals(*floats.schema()));
    EXPECT_TRUE(tenths.to_table()->column(0)->chunk(0)->Equals(
        *numbers(arrow::float32(), {1.5, 0.1, 0.1, 0.1})));
  }
  EXPECT_EQ(scalar_text(*floats.fill_na(INFINITY).to_table(), "f", 1), "inf");
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { floats.fill_na(1e300); }),
              AllOf(HasSubstr("column 'f' of type float cannot hold"), HasSubstr("cast this one")));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { half.fill_na(70000.0); }),
              HasSubstr("cannot hold"));
  EXPECT_EQ(floats.fill_na(1e300, {.columns = {"f"}}).schema()->field(0)->type()->ToString(),
            "double");
  EXPECT_EQ(scalar_text(*floats.fill_na("x").to_table(), "f", 1), "null");
  ParquetFolder folder;
  auto files = read_parquet(folder.write_rows("a.parquet", 0, 50, 20)).fill_na(1000);
  EXPECT_EQ(files.filter(col("half") == 1000).count(),
            7);  // no row group is ruled out by its statistics
  EXPECT_TRUE(stored_and_loaded(files).to_table()->Equals(*files.to_table()));
}

// Encodings and types without kernels of Arrow's are filled as others are.
TEST(RowOperationsTest, FillNaFillsEveryTypeOfTheConstantsKind) {
  struct {
    std::shared_ptr<arrow::DataType> type;
    Json values, filled;
    Expression value;
  } cases[] = {
      {arrow::utf8_view(), {"a", nullptr}, {"a", "?"}, "?"},
      {arrow::dictionary(arrow::int8(), arrow::utf8()), {"a", nullptr, "?"}, {"a", "?", "?"}, "?"},
      {arrow::dictionary(arrow::int32(), arrow::utf8_view()), {nullptr, "b"}, {"?", "b"}, "?"},
      {arrow::dictionary(arrow::uint8(), arrow::int16()), {3, nullptr}, {3, 7}, 7},
      {arrow::decimal32(5, 2), {"1.50", nullptr}, {"1.50", "7.00"}, 7},
      {arrow::decimal64(9, 2), {"1.50", nullptr}, {"1.50", "0.25"}, 0.25},
      {arrow::decimal128(4, 1), {nullptr, "1.5"}, {"7.0", "1.5"}, 7},
      {arrow::date32(), {nullptr, 1}, {2, 1}, "1970-01-03"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.type->ToString());
    Dataset rows = from_arrow(arrow::Table::Make(arrow::schema({arrow::field("x", one.type)}),
                                                 {array_from_json(one.type, one.values)}));
    auto expected = array_from_json(one.type, one.filled);
    for (const auto& options : {FillNaOptions{}, FillNaOptions{.columns = {"x"}}}) {
      auto filled = rows.fill_na(one.value, options);
      EXPECT_TRUE(filled.schema()->field(0)->type()->Equals(*one.type));
      auto column = filled.to_table()->column(0)->chunk(0);
      EXPECT_TRUE(column->type()->Equals(*one.type));
      EXPECT_TRUE(column->ValidateFull().ok());
      EXPECT_TRUE(plain_column(column)->Equals(*plain_column(expected))) << column->ToString();
    }
  }
  start_compute();
  auto runs =
      check(arrow::compute::RunEndEncode(array_from_json(arrow::utf8(), {"a", "a", nullptr})),
            "runs")
          .make_array();
  auto filled =
      from_arrow(arrow::Table::Make(arrow::schema({arrow::field("x", runs->type())}), {runs}))
          .fill_na("?")
          .to_table();
  EXPECT_TRUE(plain_column(filled->column(0)->chunk(0))
                  ->Equals(*array_from_json(arrow::utf8(), {"a", "a", "?"})));
}

TEST(RowOperationsTest, ADictionaryWithoutRoomForTheConstantIsSaid) {
  arrow::StringBuilder words;
  arrow::Int8Builder codes;
  for (int i = 0; i < 128; ++i) {
    check(words.Append(str("w", i)), "a word");
    check(codes.Append(static_cast<int8_t>(i)), "a code");
  }
  check(codes.AppendNull(), "a null");
  auto type = arrow::dictionary(arrow::int8(), arrow::utf8());
  auto column = check(arrow::DictionaryArray::FromArrays(type, check(codes.Finish(), "codes"),
                                                         check(words.Finish(), "words")),
                      "a dictionary");
  Dataset rows = from_arrow(arrow::Table::Make(arrow::schema({arrow::field("x", type)}), {column}));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.fill_na("?").to_table(); }),
              AllOf(HasSubstr("column 'x'"), HasSubstr("128 values"), HasSubstr("cast it")));
  EXPECT_EQ(rows.limit(128).fill_na("?").count(), 128);
}

TEST(RowOperationsTest, FillNaFillsADictionaryOnceForAllPieces) {
  auto type = arrow::dictionary(arrow::int8(), arrow::utf8());
  auto column = array_from_json(type, {"a", "b", nullptr, "a", nullptr});
  Dataset rows = from_arrow(arrow::Table::Make(arrow::schema({arrow::field("x", type)}), {column}))
                     .fill_na("?");
  const auto& fill = dynamic_cast<const RowOperation&>(*rows.plan()->operations.back());
  auto filled = [&](int64_t from, int64_t length) {
    Piece piece;
    piece.rows = length;
    piece.set("x", column->Slice(from, length));
    RowMask mask(length);
    fill.run(piece, mask, {});
    return (*piece.find("x"))->data()->dictionary;
  };
  EXPECT_EQ(filled(0, 2), column->data()->dictionary);
  auto longer = filled(0, 3);
  EXPECT_EQ(longer->length, column->data()->dictionary->length + 1);
  EXPECT_EQ(filled(3, 2), longer);
}

TEST(RowOperationsTest, CastAndAddColumn) {
  Dataset rows = range(3).add_column("half", col("id") * 0.5);
  EXPECT_THAT(rows.columns(), ElementsAre("id", "half"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.add_column("id", col("half")); }),
              AllOf(HasSubstr("there is a column 'id' already"), HasSubstr("with_column")));
  auto unknown = rows.map_batches(named_same_rows).add_column("id", col("half"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { unknown.to_table(); }),
              HasSubstr("add_column(id, half)"));
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [&] { stored_and_loaded(unknown).to_table(); }),
      HasSubstr("already"));
  auto typed = rows.cast({{"id", "int8"}, {"half", "string"}}).to_table();
  EXPECT_EQ(typed->schema()->field(0)->type()->ToString(), "int8");
  EXPECT_EQ(scalar_text(*typed, "half", 1), "0.5");
  EXPECT_THAT(message_of([&] { rows.cast({{"half", "int8"}}).to_table(); }), HasSubstr("half"));
  EXPECT_THAT(message_of([&] { rows.cast({{"idd", "int8"}}); }), HasSubstr("'id'"));
}

// Rounding gives an infinity only of what was one.
TEST(RowOperationsTest, CastToASmallerFloatRefusesWhatDoesNotFit) {
  auto column = [](const std::shared_ptr<arrow::DataType>& type, const Json& values) {
    return from_arrow(arrow::Table::Make(arrow::schema({arrow::field("v", type)}),
                                         {array_from_json(type, values)}));
  };
  struct {
    std::shared_ptr<arrow::DataType> from;
    Json values;
    const char* to;
    const char* refused;  // null: none
  } cases[] = {
      {arrow::float64(), {1.0, 1e300}, "float32", "1e+300"},
      {arrow::float64(), {-1e39}, "float32", "-1e+39"},
      {arrow::float64(), {3.4e38, nullptr, 1e-300}, "float32", nullptr},
      {arrow::float64(), {1.0, 65520.0}, "float16", "65520"},
      {arrow::float32(), {65519.0, nullptr}, "float16", nullptr},
      {arrow::float32(), {-1e6}, "float16", "-1000000"},
      {arrow::utf8(), {"1", "1e400"}, "float64", "1e400"},
      {arrow::utf8(), {"1e39"}, "float32", "1e39"},
      {arrow::utf8(), {"inf", "-inf", "nan", nullptr}, "float32", nullptr},
      {arrow::decimal128(38, 0), {"99999999999999999999999999999999999999"}, "float32", nullptr},
      {arrow::decimal256(50, 0),
       {"10000000000000000000000000000000000000000"},
       "float32",
       "10000000000000000000000000000000000000000"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(testing::Message() << each.values.dump() << " to " << each.to);
    Dataset rows = column(each.from, each.values).cast({{"v", each.to}});
    if (!each.refused) {
      EXPECT_EQ(rows.to_table()->num_rows(), static_cast<int64_t>(each.values.size()));
      continue;
    }
    EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.to_table(); }),
                AllOf(HasSubstr(each.refused), HasSubstr("cast")));
  }
  for (const char* to : {"float32", "float16"}) {
    auto values = numbers(arrow::float64(), {INFINITY, -INFINITY, NAN, std::nullopt});
    auto table =
        from_arrow(arrow::Table::Make(arrow::schema({arrow::field("v", values->type())}), {values}))
            .cast({{"v", to}})
            .to_table();
    EXPECT_EQ(scalar_text(*table, "v", 0), "inf");
    EXPECT_EQ(scalar_text(*table, "v", 1), "-inf");
    EXPECT_EQ(scalar_text(*table, "v", 2), "nan");
  }
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { range(1).with_column("c", lit(1e300).cast("float32")).to_table(); }),
              HasSubstr("1e+300"));
}

// Counts how often it is called, in this process.
std::atomic<int> g_batches_seen = 0;
BatchPtr count_batches(const BatchPtr& batch) {
  ++g_batches_seen;
  return batch;
}

TEST(RowOperationsTest, LimitReadsNoMoreThanItNeeds) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 10));
  auto some = rows.limit(25);
  EXPECT_EQ(some.count(), 25);
  EXPECT_THAT(some.explain(),
              AllOf(HasSubstr("limit(25)"), HasSubstr("skips 2 of 5 fragments: 3-4")))
      << some.explain();
  EXPECT_EQ(ints(*some.to_table(), "id").back(), 24);
  EXPECT_EQ(rows.limit(99).count(), 50);
  EXPECT_EQ(rows.limit(0).to_table()->num_rows(), 0);
  EXPECT_EQ(rows.limit(30).limit(7).to_table()->num_rows(), 7);
  // The number of rows is not known: it reads one row group after the other.
  auto filtered = rows.filter(col("id") % 2 == 0).map_batches(count_batches);
  for (int64_t limit : {0, 1, 5, 6, 10}) {
    g_batches_seen = 0;
    auto first = filtered.limit(limit);
    EXPECT_EQ(std::ssize(read_ids(first.plan())), limit);
    EXPECT_EQ(g_batches_seen, (limit + 4) / 5);
  }
  EXPECT_EQ(filtered.limit(100).count(), 25);
  auto stored = rows.filter(col("id") % 2 == 0).limit(7);
  EXPECT_THAT(ints(*stored_and_loaded(stored).to_table(), "id"),
              ElementsAre(0, 2, 4, 6, 8, 10, 12));
  EXPECT_TRUE(stored_and_loaded(some).to_table()->Equals(*some.to_table()));
  EXPECT_EQ(rows.sort("id", {.descending = true}).limit(3).to_table()->num_rows(), 3);
  EXPECT_EQ(rows.window_shuffle({.seed = 1}).limit(3).count(), 3);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.limit(-1); }),
              HasSubstr("not -1"));
  g_batches_seen = 0;
  EXPECT_EQ(rows.map_batches(count_batches).take(10)->num_rows(), 10);
  EXPECT_EQ(g_batches_seen, 1);
}

TEST(RowOperationsTest, ASampleDependsOnSeedAndPlaceOnly) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 5000, 700));
  auto sample = rows.random_sample(0.3, {.seed = 5});
  auto ids = ints(*sample.to_table(), "id");
  EXPECT_NEAR(static_cast<double>(ids.size()), 1500, 150);
  EXPECT_EQ(read_ids(sample.plan(), {}, {.threads = 3, .max_block_rows = 10}), ids);
  EXPECT_EQ(sample.count(), static_cast<int64_t>(ids.size()));
  EXPECT_NE(ints(*rows.random_sample(0.3, {.seed = 6}).to_table(), "id"), ids);
  EXPECT_EQ(rows.random_sample(0).count(), 0);
  EXPECT_EQ(rows.random_sample(1).count(), 5000);
  EXPECT_TRUE(stored_and_loaded(sample).to_table()->Equals(*sample.to_table()));
  // What comes later rules out row groups, and changes nothing.
  auto late = ints(*sample.filter(col("id") >= 4300).to_table(), "id");
  EXPECT_TRUE(std::equal(late.begin(), late.end(), ids.end() - std::ssize(late)));
  for (double fraction : {-0.1, 1.5, std::nan("")}) {
    message_of(ErrorKind::kInvalidArgument, [&] { rows.random_sample(fraction); });
  }
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { rows.random_shuffle_each_window().random_sample(0.5); }),
              HasSubstr("sample first"));
}

TEST(RowOperationsTest, InputFilesAreThoseOfAllSides) {
  ParquetFolder folder;
  auto a = folder.write_rows("a.parquet", 0, 5, 5), b = folder.write_rows("b.parquet", 5, 5, 5);
  EXPECT_THAT(read_parquet(a).union_with(read_parquet({a, b})).input_files(), ElementsAre(a, b));
  EXPECT_TRUE(range(3).input_files().empty());
}

}  // namespace
}  // namespace manta::data
