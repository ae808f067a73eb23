// Passes columns of every Arrow type through everything that happens to rows. The values, and which
// of them are null, must equal what Arrow itself gives for the whole table.

#include <arrow/compute/api.h>
#include <arrow/extension/uuid.h>
#include <gmock/gmock.h>
#include <parquet/arrow/reader.h>

#include <functional>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/row_function.h"
#include "manta/data/shard_internal.h"

namespace manta::data {
namespace {

using arrow::TimeUnit;
using ArrayPtr = std::shared_ptr<arrow::Array>;
using TypePtr = std::shared_ptr<arrow::DataType>;

constexpr int64_t kTypeRows = 23;

struct TypeCase {
  std::string name;
  ArrayPtr column;
  ArrayPtr plain;  ///< As workers get it: without dictionaries and views.
  bool in_parquet = true;
  bool compare_decoded = false;  ///< Dictionaries differ between row groups.
};

ArrayPtr decoded(const ArrayPtr& column) {
  auto schema = arrow::schema({arrow::field("x", column->type())});
  return without_shared_values(arrow::RecordBatch::Make(schema, column->length(), {column}))
      ->column(0);
}

// Cycles through the given values, one of which is null; a few rows at both ends are cut off, so
// that the column begins and ends inside its buffers.
ArrayPtr cycle(const TypePtr& type, const Json& values) {
  Json rows = Json::array();
  for (size_t i = 0; i < kTypeRows + 5; ++i) rows.push_back(values[(i * 3) % values.size()]);
  return array_from_json(type, rows)->Slice(3, kTypeRows);
}

std::vector<TypeCase> type_cases() {
  std::vector<TypeCase> cases;
  auto add_as = [&](const TypePtr& type, const TypePtr& plain, const Json& values,
                    bool in_parquet) {
    cases.push_back({type->ToString(), cycle(type, values), cycle(plain, values), in_parquet});
  };
  auto add = [&](const TypePtr& type, const Json& values, bool in_parquet = true) {
    add_as(type, type, values, in_parquet);
  };
  const Json numbers = {1, nullptr, 3, 0, 7, 100, 5};
  const Json texts = {"a", "", nullptr, "a text that is longer than twelve bytes", "zz"};
  add(arrow::null(), {nullptr, nullptr});
  add(arrow::boolean(), {true, false, nullptr, true, true});
  for (const auto& type :
       {arrow::int8(), arrow::int16(), arrow::int32(), arrow::int64(), arrow::uint8(),
        arrow::uint16(), arrow::uint32(), arrow::uint64(), arrow::float16(), arrow::float32(),
        arrow::float64(), arrow::duration(TimeUnit::MILLI), arrow::time32(TimeUnit::MILLI),
        arrow::time64(TimeUnit::NANO), arrow::date32()}) {
    add(type, numbers);
  }
  add(arrow::date64(), {86400000, nullptr, 0, 172800000}, false);  // Parquet has days only
  add(arrow::month_interval(), numbers, false);
  add(arrow::month_day_nano_interval(), {{1, 2, 3}, nullptr, {4, 5, 6}}, false);
  add(arrow::timestamp(TimeUnit::MICRO), {"1970-01-01", nullptr, "2020-01-31 08:00:00"});
  add(arrow::timestamp(TimeUnit::NANO, "UTC"), {"1970-01-01", nullptr, "2020-01-31 08:00:00"});
  for (const auto& type : {arrow::decimal32(5, 2), arrow::decimal64(12, 2),
                           arrow::decimal128(30, 2), arrow::decimal256(60, 2)}) {
    add(type, {"1.50", nullptr, "-2.25", "0.00"});
  }
  for (const auto& type :
       {arrow::utf8(), arrow::large_utf8(), arrow::binary(), arrow::large_binary()}) {
    add(type, texts);
  }
  add_as(arrow::utf8_view(), arrow::large_utf8(), texts, true);
  add_as(arrow::binary_view(), arrow::large_binary(), texts, true);
  add(arrow::fixed_size_binary(2), {"ab", nullptr, "cd", "  "});
  const Json lists = {{1, 2}, nullptr, Json::array(), {nullptr}, {3, 4, 5}};
  add(arrow::list(arrow::int32()), lists);
  add(arrow::large_list(arrow::int32()), lists);
  add(arrow::list_view(arrow::int32()), lists);
  add(arrow::large_list_view(arrow::int32()), lists);
  add(arrow::fixed_size_list(arrow::int32(), 2), {{1, 2}, nullptr, {3, nullptr}});
  const Json lists_of_texts = {{"a"}, nullptr, {"a text that is longer than twelve"}};
  add_as(arrow::list(arrow::utf8_view()), arrow::list(arrow::large_utf8()), lists_of_texts, true);
  add_as(arrow::list_view(arrow::binary_view()), arrow::list_view(arrow::large_binary()),
         lists_of_texts, false);
  auto named = [](const TypePtr& type) {
    return arrow::struct_({arrow::field("n", arrow::int32()), arrow::field("t", type)});
  };
  const Json structs = {
      {{"n", 1}, {"t", "a"}}, nullptr, {{"n", nullptr}, {"t", "b"}}, {{"n", 4}, {"t", nullptr}}};
  add(named(arrow::utf8()), structs);
  add_as(named(arrow::utf8_view()), named(arrow::large_utf8()), structs, false);
  const Json maps = {Json::array({Json::array({"a", 1})}), nullptr, Json::array(),
                     Json::array({Json::array({"b", 2}), Json::array({"c", nullptr})})};
  add(arrow::map(arrow::utf8(), arrow::int32()), maps);
  auto words = arrow::dictionary(arrow::int8(), arrow::utf8());
  const Json few = {"a", nullptr, "b", "c"};
  add_as(words, arrow::utf8(), few, true);
  add_as(arrow::dictionary(arrow::int32(), arrow::int64()), arrow::int64(), numbers, false);
  const Json lists_of_few = {{"a", "b"}, nullptr, Json::array(), {nullptr, "c"}};
  add_as(arrow::list(words), arrow::list(arrow::utf8()), lists_of_few, true);
  add_as(arrow::large_list(words), arrow::large_list(arrow::utf8()), lists_of_few, false);
  add_as(arrow::list_view(words), arrow::list_view(arrow::utf8()), lists_of_few, false);
  add_as(arrow::fixed_size_list(words, 2), arrow::fixed_size_list(arrow::utf8(), 2),
         {{"a", "b"}, nullptr, {nullptr, "c"}}, false);
  add_as(named(words), named(arrow::utf8()), structs, true);
  add_as(arrow::list(named(words)), arrow::list(named(arrow::utf8())),
         {structs, nullptr, Json::array()}, false);
  add_as(arrow::map(words, arrow::int32()), arrow::map(arrow::utf8(), arrow::int32()), maps, false);
  auto uni = [](const TypePtr& type, bool dense) {
    arrow::FieldVector fields = {arrow::field("n", arrow::int32()), arrow::field("t", type)};
    return dense ? arrow::dense_union(fields, {0, 5}) : arrow::sparse_union(fields, {0, 5});
  };
  const Json members = {{0, 7}, {5, "a"}, {0, nullptr}, {5, "b"}, {5, nullptr}};
  for (bool dense : {false, true}) {
    add(uni(arrow::utf8(), dense), members, false);
    add_as(uni(words, dense), uni(arrow::utf8(), dense), members, false);
  }
  start_compute();
  auto runs =
      check(arrow::compute::RunEndEncode(cycle(arrow::int32(), {4, 4, nullptr, nullptr, 4})), "")
          .make_array();
  cases.push_back({runs->type()->ToString(), runs, runs, false});
  auto ids = cycle(arrow::fixed_size_binary(16), {"0123456789abcdef", nullptr, "fedcba9876543210"});
  auto uuids = arrow::ExtensionType::WrapArray(arrow::extension::uuid(), ids);
  cases.push_back({"uuid", uuids, uuids});
  return cases;
}

/// Row by row, as Arrow puts slices together.
ArrayPtr pick(const ArrayPtr& column, const std::vector<int64_t>& rows) {
  arrow::ArrayVector parts = {column->Slice(0, 0)};
  for (int64_t row : rows) parts.push_back(column->Slice(row, 1));
  return check(arrow::Concatenate(parts), "picking rows");
}

void expect_column(const arrow::Table& table, const TypeCase& test, const ArrayPtr& column,
                   const std::string& what, const char* name = "x") {
  auto chunks = table.GetColumnByName(name)->chunks();
  if (test.compare_decoded) {
    for (auto& chunk : chunks) chunk = decoded(chunk);
  }
  chunks.push_back(column->Slice(0, 0));
  for (const auto& chunk : chunks) {
    ASSERT_TRUE(chunk->type()->Equals(*column->type()))
        << what << ": " << chunk->type()->ToString();
    auto valid = chunk->ValidateFull();
    ASSERT_TRUE(valid.ok()) << what << ": " << valid.ToString();
  }
  auto result = check(arrow::Concatenate(chunks), what);
  auto expected = pick(column, ints(table, "id"));
  EXPECT_TRUE(result->Equals(*expected)) << what << ": " << result->ToString() << "\ninstead of\n"
                                         << expected->ToString();
}

ArrayPtr attached;  // what `attach` gives each id

std::shared_ptr<arrow::RecordBatch> attach(const std::shared_ptr<arrow::RecordBatch>& batch) {
  auto rows = ints(*batch, "id");
  return check(batch->AddColumn(1, "x", attached->Slice(rows[0], batch->num_rows())), "x");
}
std::shared_ptr<arrow::RecordBatch> hand_on(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch;
}

// The rows that a worker gets in training.
std::shared_ptr<arrow::Table> through_the_feed(const Dataset& dataset) {
  auto [mine, other] = socket_pair();
  auto client = std::make_shared<FeedClient>(std::move(mine), 0, 1, std::chrono::seconds(60));
  std::vector<UniqueFd> ends;
  ends.push_back(std::move(other));
  std::thread reader([&] {
    serve_feed({{"train", dataset.plan()}}, std::move(ends), FeedOptions{});
  });
  Batches batches;
  std::exception_ptr error;
  try {
    DataShard shard(std::make_shared<ShardState>(client, "train", Position{}));
    for (const auto& batch : shard.iter_batches({.batch_size = 4})) batches.push_back(batch);
    // The rows lie in the reader's memory, which is not reused while a batch is held.
    for (auto& batch : batches)
      batch = check(batch->CopyTo(arrow::default_cpu_memory_manager()), "");
  } catch (...) {
    error = std::current_exception();
  }
  client.reset();
  reader.join();
  if (error) std::rethrow_exception(error);
  return check(arrow::Table::FromRecordBatches(batches), "batches");
}

std::vector<int64_t> valid_rows(const arrow::Array& column) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < column.length(); ++i) {
    if (column.IsValid(i)) rows.push_back(i);
  }
  return rows;
}

// All that can happen to the rows of a data set with the columns id (the number of the row) and x.
void walk_all_paths(const Dataset& dataset, const TypeCase& test, const std::string& where) {
  auto expect = [&](const Dataset& result, const std::string& path) {
    expect_column(*result.to_table(), test, test.column, str(test.name, " ", where, ", ", path));
  };
  expect(dataset, "as it is");
  expect(dataset.filter(col("id") != 3 && col("id") < 17), "filtered");
  expect(dataset.filter(col("id") == 11), "one row");
  expect(dataset.filter(col("id") < 2 || col("id") > 20), "few rows");
  expect(dataset.window_shuffle({.rows = 12, .seed = 1}), "shuffled");
  expect(dataset.filter(col("id") > 1).map_batches(hand_on, {.batch_size = 4}), "mapped");
  for (bool shuffle : {false, true}) {
    auto [train, test_part] = dataset.train_test_split(0.3, {.shuffle = shuffle, .seed = 2});
    expect(train, "train");
    expect(test_part, "test");
  }
  auto valid = valid_rows(*test.plain);
  for (const auto& kept : {dataset.drop_na({"x"}), dataset.filter(col("x").is_valid())}) {
    ASSERT_EQ(kept.count(), static_cast<int64_t>(valid.size())) << test.name;
    if (!valid.empty()) {
      EXPECT_EQ(ints(*kept.to_table(), "id"), valid) << test.name;
    }
  }
  EXPECT_EQ(dataset.filter(col("x").is_null()).count(),
            kTypeRows - static_cast<int64_t>(valid.size()));
  auto copied = dataset.with_column("copy", col("x")).filter(col("id") != 2).to_table();
  expect_column(*copied, test, test.column, test.name + " copied", "copy");
  Batches batches;
  for (const auto& batch : dataset.iter_batches({.batch_size = 5})) batches.push_back(batch);
  expect_column(*check(arrow::Table::FromRecordBatches(batches), "batches"), test, test.column,
                test.name + " in batches");
  expect_column(*dataset.take(3), test, test.column, test.name + " taken");
  for (const auto& fed : {dataset, dataset.filter(col("id") != 4).window_shuffle({.seed = 3})}) {
    expect_column(*through_the_feed(fed), test, test.plain, test.name + " in training");
  }
}

// A constant that columns of the type may be compared with; nothing if there is none.
std::optional<Expression> constant_for(const arrow::DataType& type) {
  switch (meaning_of(type)) {
    case Meaning::kNumber:
      return Expression(7);
    case Meaning::kLocalTime:
      return Expression("2020-01-31");
    case Meaning::kInstant:
      return Expression("2020-01-31 00:00Z");
    case Meaning::kTimeOfDay:
      return Expression("00:00:00.007");
    case Meaning::kDuration:
      return Expression(std::chrono::milliseconds(7));
    case Meaning::kBool:
      return Expression(true);
    case Meaning::kBytes:
      if (type.id() == arrow::Type::STRING_VIEW || arrow::is_string(type.id()))
        return Expression("?");
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// Functions that choose among values give values of the type, or an error that names the column;
// never other values.
void walk_choices(const Dataset& dataset, const TypeCase& test, const std::string& where) {
  auto plain = plain_column(test.column);
  TypeCase bare = test;
  bare.column = plain;
  bool comparable = meaning_of(*plain->type()) != Meaning::kNone;
  const std::pair<const char*, Expression> choices[] = {
      {"coalesce", coalesce({col("x"), col("x")})},
      {"if_else", if_else(col("id") % 2 == 0, col("x"), col("x"))},
      {"when", when(col("id") < 5, col("x")).when(col("id") < 9, col("x")).otherwise(col("x"))},
      {"min_of", min_of(col("x"), col("x"))},
      {"max_of", max_of(col("x"), col("x"))}};
  for (const auto& [name, choice] : choices) {
    std::string what = str(test.name, " ", where, ", ", name);
    bool orders = std::string_view(name).ends_with("_of");
    if (orders && !comparable) {
      Error error =
          error_of([&, &choice = choice] { dataset.with_column("y", choice).to_table(); });
      EXPECT_THAT(error.what(), testing::HasSubstr("'x'")) << what;
      continue;
    }
    auto chosen = dataset.with_column("y", choice).to_table();
    expect_column(*chosen, bare, bare.column, what, "y");
  }
  auto constant = constant_for(*plain->type());
  if (!constant) return;
  std::string what = str(test.name, " ", where, ", filled");
  std::vector<int64_t> holes, valid = valid_rows(*plain);
  for (int64_t i = 0; i < kTypeRows; ++i) {
    if (!std::binary_search(valid.begin(), valid.end(), i)) holes.push_back(i);
  }
  for (const Dataset& filled :
       {dataset.fill_na(*constant), dataset.fill_na(*constant, {.columns = {"x"}}),
        dataset.with_column("x", col("x").fill_null(*constant))}) {
    EXPECT_EQ(filled.drop_na({"x"}).count(), kTypeRows) << what;
    EXPECT_EQ(filled.filter(col("x") == *constant).count(),
              static_cast<int64_t>(holes.size()) + dataset.filter(col("x") == *constant).count())
        << what;
  }
  TypeCase same = test;  // except for the dictionary, which has one value more
  same.column = decoded(test.column);
  same.compare_decoded = true;
  for (const auto& options : {FillNaOptions{}, FillNaOptions{.columns = {"x"}}}) {
    auto filled = dataset.fill_na(*constant, options);
    EXPECT_TRUE(filled.to_table()->GetColumnByName("x")->type()->Equals(
        *dataset.to_table()->GetColumnByName("x")->type()))
        << what;
    expect_column(
        *filled.filter(!col("id").is_in(std::vector<Expression>(holes.begin(), holes.end())))
             .to_table(),
        same, same.column, what);
  }
}

Row row_as_it_is(const Row& row) { return row; }
std::vector<Row> twice(const Row& row) { return {row, row}; }

void walk_row_functions(const Dataset& dataset, const TypeCase& test, const std::string& where) {
  std::string what = str(test.name, " ", where);
  expect_column(*dataset.map(row_as_it_is).to_table(), test, test.column, what + ", row by row");
  auto doubled = dataset.filter(col("id") < 20).flat_map(twice).to_table();
  EXPECT_EQ(doubled->num_rows(), 40);
  expect_column(*doubled, test, test.column, what + ", each row twice");
  auto odd = dataset.filter([](const Row& row) { return row.get<int64_t>("id") % 2 == 1; });
  expect_column(*odd.to_table(), test, test.column, what + ", some rows");
}

TEST(TypesTest, EveryTypeThroughEveryPathFromAFunction) {
  ParquetFolder folder;
  arrow::Int64Builder ids;
  for (int64_t i = 0; i < kTypeRows; ++i) check(ids.Append(i), "id");
  auto table = arrow::Table::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                  {check(ids.Finish(), "ids")});
  auto path = folder.write("ids.parquet", *table, 9);
  for (const auto& test : type_cases()) {
    attached = test.column;
    walk_all_paths(read_parquet(path).map_batches(attach, {.batch_size = 5}), test,
                   "from a function");
    walk_choices(read_parquet(path).map_batches(attach, {.batch_size = 5}), test,
                 "from a function");
    walk_row_functions(read_parquet(path).map_batches(attach, {.batch_size = 5}), test,
                       "from a function");
    if (testing::Test::HasFatalFailure()) return;
  }
  attached = nullptr;
}

TEST(TypesTest, EveryTypeThroughEveryPathFromAFile) {
  ParquetFolder folder;
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < kTypeRows; ++i) check(builder.Append(i), "id");
  auto ids = check(builder.Finish(), "ids");
  int number = 0;
  for (auto& test : type_cases()) {
    if (!test.in_parquet) continue;
    auto table = arrow::Table::Make(
        arrow::schema({arrow::field("id", arrow::int64()), arrow::field("x", test.column->type())}),
        {ids, test.column});
    auto path = folder.write_with_schema(str(number++, ".parquet"), *table, 9);
    auto file = check(arrow::io::ReadableFile::Open(path), "opening");
    auto reader = check(parquet::arrow::OpenFile(file, arrow::default_memory_pool()), "opening");
    arrow::ArrayVector parts;  // of the row groups, each of which may have a dictionary of its own
    for (int i = 0; i < reader->num_row_groups(); ++i) {
      auto part = check(reader->ReadRowGroup(i), "reading");
      for (const auto& chunk : part->GetColumnByName("x")->chunks())
        parts.push_back(decoded(chunk));
    }
    test.plain = check(arrow::Concatenate(parts), "the column");
    test.column = test.plain;
    test.compare_decoded = true;
    walk_all_paths(read_parquet(path), test, "from a file");
    walk_choices(read_parquet(path), test, "from a file");
    walk_row_functions(read_parquet(path), test, "from a file");
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace manta::data
