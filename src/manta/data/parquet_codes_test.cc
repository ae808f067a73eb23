#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <gmock/gmock.h>

#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/parquet_codes_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"
#include "manta/data/wide.h"

namespace manta::data {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;

// Value i of so many different ones.
Json value_of(const arrow::DataType& type, int64_t i) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_STRING:
      return i % 3 == 0 ? str("value number ", i) : str(i);
    case arrow::Type::BOOL:
      return i % 2 == 0;
    case arrow::Type::LIST:
      return Json::array({i, i + 1});
    case arrow::Type::STRUCT:
      return {{"x", i}};
    case arrow::Type::DECIMAL128:
      return str(i, ".25");
    default:
      return i;
  }
}

std::shared_ptr<arrow::Array> column_of(const TypePtr& type, int64_t rows, int64_t different,
                                        int64_t null_of) {
  Json values = Json::array();
  for (int64_t i = 0; i < rows; ++i) {
    bool is_null = null_of > 0 && i % null_of == 0;
    values.push_back(is_null ? Json() : value_of(*type, i * 7919 % different % 100));
    if (!is_null && different > 100 && arrow::is_integer(type->id())) {
      values.back() = i * 7919 % different;
    }
  }
  return array_from_json(type, values);
}

std::vector<TypePtr> coded_types() {
  using namespace arrow;  // NOLINT
  return {int8(),
          int32(),
          uint32(),
          int64(),
          uint64(),
          float32(),
          float64(),
          date32(),
          time32(TimeUnit::MILLI),
          time64(TimeUnit::MICRO),
          timestamp(TimeUnit::MICRO, "UTC"),
          timestamp(TimeUnit::MILLI),
          utf8(),
          binary(),
          large_utf8(),
          boolean(),
          decimal128(12, 2),
          list(int64()),
          struct_({field("x", int64())})};
}

class ParquetCodesTest : public testing::Test {
 protected:
  // A column of each type, and "id".
  std::string write(const std::string& name, int64_t rows, int64_t different, int64_t null_of,
                    int64_t row_group) {
    arrow::FieldVector fields = {arrow::field("id", arrow::int64())};
    arrow::ArrayVector columns = {column_of(arrow::int64(), rows, 1'000'003, 0)};
    for (const auto& type : coded_types()) {
      fields.push_back(arrow::field(type->ToString(), type));
      columns.push_back(column_of(type, rows, different, null_of));
    }
    auto table = arrow::Table::Make(arrow::schema(fields), columns, rows);
    return folder_.write_with_schema(name, *table, row_group);
  }

  ParquetFolder folder_;
};

// The rows as `read` gives them, and how many columns of them were coded.
std::pair<std::shared_ptr<arrow::Table>, int> read_with(decltype(&Source::read) read,
                                                        const Dataset& dataset) {
  Source& source = *dataset.plan()->source;
  auto names = source.schema()->field_names();
  Batches batches;
  int coded = 0;
  for (size_t i = 0; i < source.fragments().size(); ++i) {
    (source.*read)(i, names, 100, [&](const auto& batch) {
      Piece piece = to_piece(*batch);
      pick_columns(piece, names, "test");
      for (size_t j = 0; j < names.size(); ++j) {
        bool is_coded = piece.columns[j]->type_id() == arrow::Type::DICTIONARY;
        coded += is_coded ? 1 : 0;
        if (is_coded) piece.columns[j] = plain_column(piece.columns[j]);
      }
      batches.push_back(to_batch(std::move(piece)));
      check(batches.back()->ValidateFull(), "read");
    });
  }
  auto table = arrow::Table::FromRecordBatches(batches.front()->schema(), batches);
  return {check(check(table, "test")->CombineChunks(), "test"), coded};
}

TEST_F(ParquetCodesTest, StandForTheValues) {
  struct Case {
    int64_t rows, different, null_of, row_group;
  };
  for (const auto& each : {Case{1, 1, 0, 10}, Case{1, 1, 1, 10}, Case{350, 20, 0, 130},
                           Case{350, 20, 3, 130}, Case{350, 1, 2, 350}, Case{100, 100, 1, 50}}) {
    SCOPED_TRACE(str(each.rows, " rows, ", each.different, " values, null of ", each.null_of));
    auto rows =
        read_parquet(write("a.parquet", each.rows, each.different, each.null_of, each.row_group));
    auto [plain, none] = read_with(&Source::read, rows);
    auto [coded, some] = read_with(&Source::read_coded, rows);
    EXPECT_EQ(none, 0);
    EXPECT_GT(some, 0);
    EXPECT_TRUE(coded->Equals(*plain)) << coded->ToString() << plain->ToString();
  }
}

// Columns that cannot be null have no levels; pages of version 2 have theirs elsewhere.
TEST_F(ParquetCodesTest, StandForTheValuesWhateverThePagesAre) {
  for (bool nullable : {true, false}) {
    arrow::FieldVector fields;
    arrow::ArrayVector columns;
    for (const auto& type : coded_types()) {
      fields.push_back(arrow::field(type->ToString(), type, nullable));
      columns.push_back(column_of(type, 400, 20, nullable ? 3 : 0));
    }
    auto table = arrow::Table::Make(arrow::schema(fields), columns, 400);
    for (auto version :
         {parquet::ParquetDataPageVersion::V1, parquet::ParquetDataPageVersion::V2}) {
      auto as = parquet::WriterProperties::Builder()
                    .data_page_version(version)
                    ->data_pagesize(64)
                    ->write_batch_size(16)
                    ->compression(arrow::Compression::ZSTD)
                    ->build();
      auto name = str(nullable, static_cast<int>(version), ".parquet");
      auto rows = read_parquet(folder_.write_with_schema(name, *table, 150, as));
      auto [plain, none] = read_with(&Source::read, rows);
      auto [coded, some] = read_with(&Source::read_coded, rows);
      EXPECT_GT(some, 0);
      EXPECT_TRUE(coded->Equals(*plain)) << coded->ToString() << plain->ToString();
    }
  }
}

// Of one type, in row groups whose first pages have codes and whose last ones have values.
TEST_F(ParquetCodesTest, AreNotReadOfPagesWithValues) {
  auto numbers = [&](const char* name, int64_t rows) {
    auto table = arrow::Table::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                    {column_of(arrow::int64(), rows, 100'000'007, 0)});
    return folder_.write(name, *table, 1 << 20);
  };
  numbers("a.parquet", 1'000);
  numbers("b.parquet", 300'000);
  numbers("c.parquet", 2'000);
  auto rows = read_parquet(folder_.path());
  auto [plain, none] = read_with(&Source::read, rows);
  auto [coded, some] = read_with(&Source::read_coded, rows);
  EXPECT_EQ(some, 10 + 20);
  EXPECT_TRUE(coded->Equals(*plain));
  // Such columns change their form from file to file.
  auto sorted = rows.sort("id").to_table();
  EXPECT_EQ(sorted->num_rows(), 303'000);
  auto ids = ints(*sorted, "id");
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  auto shuffled = ints(*rows.random_shuffle({.seed = 3}).to_table(), "id");
  EXPECT_EQ(shuffled, ints(*from_arrow(plain).random_shuffle({.seed = 3}).to_table(), "id"));
}

// Rows of files, whose values are coded, are in the same order and the same as rows in memory,
// which are not.
TEST_F(ParquetCodesTest, SortsAndShufflesAreThoseOfTheValues) {
  struct Case {
    const char* what;
    int64_t rows, different, null_of, row_group;
  };
  for (const auto& each :
       {Case{"one row", 1, 1, 0, 10}, Case{"only nulls", 70, 5, 1, 30},
        Case{"one value", 500, 1, 0, 100}, Case{"many values", 3'000, 90, 5, 700},
        Case{"many row groups", 900, 40, 2, 7}}) {
    SCOPED_TRACE(each.what);
    auto file =
        read_parquet(write("a.parquet", each.rows, each.different, each.null_of, each.row_group));
    auto memory = from_arrow(read_with(&Source::read, file).first);
    auto expect_same = [&](const std::function<Dataset(const Dataset&)>& operation) {
      auto given = operation(file).to_table(), expected = operation(memory).to_table();
      check(given->ValidateFull(), "given");
      EXPECT_TRUE(
          check(given->CombineChunks(), "test")->Equals(*check(expected->CombineChunks(), "test")));
    };
    for (const auto& type : coded_types()) {
      if (arrow::is_nested(type->id())) continue;
      SCOPED_TRACE(type->ToString());
      for (Nulls nulls : {Nulls::kFirst, Nulls::kLast}) {
        for (bool descending : {false, true}) {
          expect_same([&](const Dataset& rows) {
            return rows.sort(type->ToString(), {.descending = descending, .nulls = nulls});
          });
        }
      }
    }
    expect_same([](const Dataset& rows) { return rows.sort({"string", "double"}); });
    expect_same([](const Dataset& rows) { return rows.random_shuffle({.seed = 1}); });
    expect_same([](const Dataset& rows) {
      return rows.rename_columns({{"string", "text"}})
          .drop_columns({"double"})
          .random_shuffle({.seed = 1})
          .filter(col("id") > 100);
    });
    expect_same([](const Dataset& rows) {  // which looks at values first
      return rows.filter(col("int64") < 50).sort("int64", {.descending = true});
    });
    expect_same([](const Dataset& rows) {
      return rows.random_shuffle({.seed = 1}).select_columns({"string"});
    });
  }
}

TEST_F(ParquetCodesTest, RowsThatDoNotFitIntoMemoryAreTheSame) {
  constexpr int64_t kRows = 400'000, kBytes = 64 << 20;
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int64_t i = 0; i < 6; ++i) {
    fields.push_back(arrow::field(str("c", i), i == 5 ? arrow::utf8() : arrow::int64()));
    columns.push_back(column_of(fields.back()->type(), kRows, 60 + 10 * i, i == 2 ? 3 : 0));
  }
  fields.push_back(arrow::field("id", arrow::int64()));
  columns.push_back(column_of(arrow::int64(), kRows, 100'000'007, 0));
  auto table = arrow::Table::Make(arrow::schema(fields), columns);
  folder_.write("a.parquet", *table, 150'000);
  auto file = read_parquet(folder_.path());
  auto expect_same = [&](const Dataset& given, const Dataset& expected) {
    EXPECT_TRUE(check(given.to_table()->CombineChunks(), "test")
                    ->Equals(*check(expected.to_table()->CombineChunks(), "test")));
  };
  expect_same(file.sort("c0", {.memory_bytes = kBytes}), from_arrow(table).sort("c0"));
  expect_same(file.random_shuffle({.seed = 1, .memory_bytes = kBytes}),
              from_arrow(table).random_shuffle({.seed = 1}));
}

// Three values have codes of two bits, of which 3 means nothing.
TEST_F(ParquetCodesTest, ACodeWithoutAValueIsDamage) {
  auto texts = column_of(arrow::utf8(), 1000, 3, 0);
  auto table = arrow::Table::Make(arrow::schema({arrow::field("text", arrow::utf8())}), {texts});
  auto path = folder_.write("a.parquet", *table, 1000);
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string codes = "\x24\x49\x92\x24\x49\x92";  // 0, 1, 2, 0, 1, 2, ...
  size_t at = bytes.find(codes);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = '\xff';
  std::ofstream(folder_.file("bad.parquet"), std::ios::binary) << bytes;
  Dataset bad = read_parquet(folder_.file("bad.parquet"));
  Error error = error_of([&] { read_with(&Source::read_coded, bad); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), testing::HasSubstr("dictionary"));
  EXPECT_EQ(read_with(&Source::read_coded, read_parquet(path)).second, 10);
}

// Bytes of the file changed at random: an error or other values, but nothing worse.
TEST_F(ParquetCodesTest, DamagedPagesAreErrors) {
  auto path = write("a.parquet", 500, 30, 4, 200);
  std::ifstream in(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  int failed = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    std::string bad = good;
    bad[i * 7919 % (good.size() / 2)] ^= static_cast<char>(1 + i % 255);
    auto damaged = folder_.file(str("bad", i, ".parquet"));
    std::ofstream(damaged, std::ios::binary) << bad;
    try {
      read_with(&Source::read_coded, read_parquet(damaged));
    } catch (const Error&) {
      ++failed;
    }
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace manta::data
