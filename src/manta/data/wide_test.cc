#include "manta/data/wide.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <set>

#include "manta/data/feed_fixture_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/data/stage_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<int64_t> all_ids(const Dataset& dataset) { return ints(*dataset.to_table(), "id"); }

std::vector<int64_t> range_of(int64_t from, int64_t to) {
  std::vector<int64_t> all(static_cast<size_t>(to - from));
  std::iota(all.begin(), all.end(), from);
  return all;
}

Dataset reloaded(const Dataset& dataset) {
  return Dataset::from_json(Json::parse(dataset.to_json().dump()));
}

class WideTest : public testing::Test {
 protected:
  WideFiles files_;
};

TEST_F(WideTest, SortsAsPyarrowDoes) {
  for (const Json& one : wide_expected()["sorts"]) {
    SCOPED_TRACE(one["keys"].dump() + one["descending"].dump());
    SortOptions options{.descending_keys = one["descending"].get<std::vector<bool>>(),
                        .nulls = one["nulls"] == "first" ? Nulls::kFirst : Nulls::kLast};
    Dataset sorted = files_.left().sort(one["keys"].get<std::vector<std::string>>(), options);
    EXPECT_EQ(all_ids(sorted), one["ids"].get<std::vector<int64_t>>());
  }
  EXPECT_EQ(all_ids(files_.left().sort("id", {.descending = true})).front(), 239);
}

TEST_F(WideTest, ManyRowsAreSortedWhateverTheThreads) {
  auto table = table_of_ids(150'000, 40'000);
  Dataset rows = from_arrow(table).with_column("k", col("id") * 4827 % 1009);
  Dataset sorted = rows.sort("k");
  auto ids = all_ids(sorted);
  EXPECT_EQ(ids.size(), 150'000u);
  auto place = [](int64_t id) { return std::pair(id * 4827 % 1009, id); };
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end(),
                             [&](int64_t a, int64_t b) { return place(a) < place(b); }));
  EXPECT_EQ(read_ids(sorted.plan(), {}, {.threads = 1}), ids);
  EXPECT_EQ(read_ids(sorted.plan(), {}, {.threads = 4}), ids);
}

TEST_F(WideTest, AShuffleIsAFunctionOfItsSeed) {
  Dataset rows = from_arrow(table_of_ids(70'000, 9'000));
  Dataset shuffled = rows.random_shuffle({.seed = 5});
  auto ids = all_ids(shuffled);
  EXPECT_EQ(all_ids(rows.random_shuffle({.seed = 5})), ids);
  EXPECT_EQ(read_ids(shuffled.plan(), {}, {.threads = 3}), ids);
  // However the rows come in batches.
  EXPECT_EQ(all_ids(from_arrow(table_of_ids(70'000, 70'000)).random_shuffle({.seed = 5})), ids);
  EXPECT_NE(all_ids(rows.random_shuffle({.seed = 6})), ids);
  EXPECT_EQ(read_ids(shuffled.plan(), {.epoch = 3}), ids);
  // These numbers must stay what they are: runs go on in the middle of them.
  EXPECT_EQ(std::vector<int64_t>(ids.begin(), ids.begin() + 4),
            (std::vector<int64_t>{48526, 15848, 32265, 62068}));
  auto in_order = ids;
  std::sort(in_order.begin(), in_order.end());
  EXPECT_EQ(in_order, range_of(0, 70'000));
  // Mixed all over: a tenth of the rows has about a tenth of each tenth.
  int64_t low =
      std::count_if(ids.begin(), ids.begin() + 7'000, [](int64_t id) { return id < 7'000; });
  EXPECT_NEAR(static_cast<double>(low), 700, 150);
  Dataset each = rows.random_shuffle({.seed = 5, .reshuffle_each_epoch = true});
  EXPECT_EQ(read_ids(each.plan()), ids);
  EXPECT_NE(read_ids(each.plan(), {.epoch = 1}), ids);
  EXPECT_EQ(rows.random_shuffle().count(), 70'000);
  EXPECT_NE(all_ids(rows.random_shuffle()), all_ids(rows.random_shuffle()));
}

TEST_F(WideTest, BlocksAreCutAndPutInAnotherOrder) {
  Dataset rows = files_.left();
  EXPECT_EQ(rows.num_blocks(), 9);
  Dataset five = rows.repartition(5);
  EXPECT_EQ(five.num_blocks(), 5);
  EXPECT_EQ(all_ids(five), range_of(0, 240));
  EXPECT_EQ(rows.filter(col("id") < 3).repartition(5).num_blocks(), 3);
  Dataset large = from_arrow(table_of_ids(100'000, 100'000)).repartition(2);
  EXPECT_EQ(large.num_blocks(), 2);
  EXPECT_EQ(all_ids(large), range_of(0, 100'000));
  Dataset other = five.randomize_block_order({.seed = 2});
  auto ids = all_ids(other);
  EXPECT_NE(ids, range_of(0, 240));
  for (size_t i = 0; i < 240; i += 48) {
    EXPECT_EQ(std::vector<int64_t>(ids.begin() + static_cast<int64_t>(i),
                                   ids.begin() + static_cast<int64_t>(i) + 48),
              range_of(ids[i], ids[i] + 48));
  }
  EXPECT_EQ(all_ids(reloaded(other)), ids);
  EXPECT_THAT(message_of([&] { rows.window_shuffle().randomize_block_order(); }),
              HasSubstr("randomize_block_order after window_shuffle"));
  EXPECT_THAT(message_of([&] { rows.repartition(0); }), HasSubstr("not 0"));
}

std::atomic<int> calls = 0;
BatchPtr counted(const BatchPtr& batch) {
  ++calls;
  return batch;
}

TEST_F(WideTest, MaterializedRowsAreMadeOnce) {
  calls = 0;
  Dataset rows = files_.left().map_batches(counted).sort("id", {.descending = true}).materialize();
  int once = calls;
  EXPECT_GT(once, 0);
  EXPECT_EQ(all_ids(rows).front(), 239);
  EXPECT_EQ(all_ids(rows.filter(col("id") < 7)), (std::vector<int64_t>{6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(rows.count(), 240);
  EXPECT_EQ(rows.num_blocks(), 1);
  EXPECT_GT(rows.size_bytes(), 240 * 50);
  EXPECT_EQ(rows.select_columns({"s"}).columns(), (std::vector<std::string>{"s"}));
  EXPECT_EQ(calls, once);
  EXPECT_GT(files_.left().size_bytes(), 240 * 50);
  Dataset plain = files_.left().materialize();
  EXPECT_EQ(all_ids(reloaded(plain)), range_of(0, 240));
  EXPECT_THAT(plain.explain(), HasSubstr("materialize(), of all rows at once"));
}

TEST_F(WideTest, SplitsAreConsecutiveRows) {
  Dataset rows = files_.left().filter(col("id") < 100);
  auto ids = [](const std::vector<Dataset>& parts) {
    std::vector<std::vector<int64_t>> all;
    for (const auto& part : parts) all.push_back(all_ids(part));
    return all;
  };
  using Parts = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(ids(rows.split(3)), (Parts{range_of(0, 34), range_of(34, 67), range_of(67, 100)}));
  EXPECT_EQ(ids(rows.split(3, {.equal = true})),
            (Parts{range_of(0, 33), range_of(33, 66), range_of(66, 99)}));
  EXPECT_EQ(ids(rows.split_at_indices({10, 10, 120})),
            (Parts{range_of(0, 10), {}, range_of(10, 100), {}}));
  EXPECT_EQ(ids(rows.split_proportionately({0.7, 0.2})),
            (Parts{range_of(0, 70), range_of(70, 90), range_of(90, 100)}));
  auto part = rows.split(3)[1];
  EXPECT_EQ(part.count(), 33);
  EXPECT_EQ(all_ids(reloaded(part)), range_of(34, 67));
  EXPECT_EQ(all_ids(part.sort("id", {.descending = true})).front(), 66);
  EXPECT_THAT(message_of([&] { rows.split(0); }), HasSubstr("at least 1 part"));
  EXPECT_THAT(message_of([&] { rows.split_at_indices({5, 3}); }), HasSubstr("{5, 3}"));
  EXPECT_THAT(message_of([&] { rows.split_proportionately({0.7, 0.5}); }), HasSubstr("1.2"));
}

TEST_F(WideTest, AStratifiedSplitHasItsShareOfEveryValue) {
  auto [train, test] =
      files_.left().train_test_split(0.25, {.shuffle = true, .seed = 3, .stratify = "s"});
  auto train_ids = all_ids(train), test_ids = all_ids(test);
  EXPECT_EQ(test_ids.size(), 60u);
  std::set<int64_t> all(train_ids.begin(), train_ids.end());
  all.insert(test_ids.begin(), test_ids.end());
  EXPECT_EQ(all.size(), 240u);
  EXPECT_TRUE(std::is_sorted(test_ids.begin(), test_ids.end()));
  auto counts = [](const Dataset& dataset) {
    std::map<std::string, int> by_value;
    auto table = dataset.select_columns({"s"}).to_table();
    for (int64_t i = 0; i < table->num_rows(); ++i) ++by_value[scalar_text(*table, "s", i)];
    return by_value;
  };
  auto in_test = counts(test);
  for (const auto& [value, count] : counts(files_.left())) {
    EXPECT_NEAR(in_test[value], count * 0.25, 1) << value;
  }
  EXPECT_EQ(all_ids(reloaded(test)), test_ids);
  EXPECT_EQ(
      files_.left().train_test_split(int64_t{7}, {.shuffle = true, .stratify = "i"}).second.count(),
      7);
  EXPECT_THAT(message_of([&] { files_.left().train_test_split(0.5, {.stratify = "s"}); }),
              HasSubstr("set shuffle"));
  EXPECT_THAT(
      message_of([&] { files_.left().train_test_split(0.5, {.shuffle = true, .stratify = "no"}); }),
      HasSubstr("no column 'no'"));
}

TEST_F(WideTest, UnionAndZip) {
  Dataset rows = files_.left();
  Dataset few = rows.filter(col("id") < 3), others = rows.filter(col("id") >= 238);
  Dataset both = few.union_with({others, few});
  EXPECT_EQ(all_ids(both), (std::vector<int64_t>{0, 1, 2, 238, 239, 0, 1, 2}));
  EXPECT_EQ(all_ids(reloaded(both)), all_ids(both));
  EXPECT_EQ(all_ids(both.select_columns({"id", "s"}).filter(col("id") > 1)),
            (std::vector<int64_t>{2, 238, 239, 2}));
  EXPECT_EQ(rows.union_with(rows).count(), 480);
  EXPECT_THAT(both.explain(),
              HasSubstr("union_with(2 data sets), of all rows at once\n    read_parquet"));
  EXPECT_THAT(message_of([&] { rows.union_with(files_.right()); }),
              AllOf(HasSubstr("data set 0 has the columns {i: int32, s: string, y: int64}"),
                    HasSubstr("as this one")));
  Dataset next = rows.with_column("twice", col("id") * 2).select_columns({"id", "twice"});
  Dataset zipped = rows.zip(next);
  auto table = zipped.to_table();
  EXPECT_EQ(table->num_columns(), 11);
  EXPECT_EQ(ints(*table, "id_1"), range_of(0, 240));
  EXPECT_EQ(ints(*table, "twice")[239], 478);
  EXPECT_EQ(all_ids(reloaded(zipped)), range_of(0, 240));
  EXPECT_THAT(message_of([&] { rows.zip(next.filter(col("id") < 100)).to_table(); }),
              HasSubstr("the left side has 240 rows and the right side 100"));
  EXPECT_THAT(message_of([&] { rows.zip(next, {.suffix = ""}); }), HasSubstr("two columns 'id'"));
}

TEST_F(WideTest, OfNoRows) {
  Dataset none = files_.left().filter(col("id") < 0);
  auto is_empty = [&](const Dataset& rows) {
    EXPECT_EQ(rows.to_table()->num_rows(), 0);
    EXPECT_TRUE(rows.to_table()->schema()->Equals(*rows.schema()));
    EXPECT_EQ(rows.count(), 0);
  };
  is_empty(none.sort("id"));
  is_empty(none.random_shuffle());
  is_empty(none.zip(none.select_columns({"id"})));
  is_empty(none.union_with(none));
  is_empty(none.materialize());
  EXPECT_EQ(none.materialize().size_bytes(), 0);
  is_empty(none.repartition(3));
  auto parts = none.split(3);
  ASSERT_EQ(parts.size(), 3u);
  for (const auto& part : parts) is_empty(part);
  for (const auto& part : none.split_at_indices({0, 5})) is_empty(part);
  EXPECT_THAT(message_of([&] { none.zip(files_.left()).to_table(); }),
              HasSubstr("the left side has 0 rows and the right side 240"));
  for (const auto& batch : none.sort("id").iter_batches()) ADD_FAILURE() << batch->num_rows();
}

TEST_F(WideTest, PlansAreStoredExplainedAndPruned) {
  Dataset sorted = files_.left().sort("x").filter(col("id") < 17).select_columns({"id"});
  EXPECT_THAT(sorted.explain(),
              AllOf(HasSubstr("reads 2 of 9 columns: id, x"), HasSubstr("skips 8 of 9 fragments"),
                    HasSubstr("sort(x), of all rows at once")));
  EXPECT_EQ(all_ids(reloaded(sorted)), all_ids(sorted));
  Dataset shuffled = files_.left().random_shuffle({.seed = 1}).filter(col("id") < 17);
  EXPECT_THAT(shuffled.explain(), HasSubstr("skips 0 of 9"));
  EXPECT_EQ(all_ids(shuffled).size(), 17u);
  EXPECT_EQ(files_.left().random_shuffle({.seed = 1}).count(), 240);
  EXPECT_EQ(sorted.select_columns({}).count(), 17);
  Dataset stages = files_.left().sort("i").random_shuffle({.seed = 4}).sort("s");
  EXPECT_EQ(all_ids(reloaded(stages)), all_ids(stages));
  for (
      const char* broken :
      {R"({"op": "sort", "keys": [], "descending": [], "nulls_first": false, "memory": 0})",
       R"({"op": "sort", "keys": ["id"], "descending": [1], "nulls_first": false, "memory": 0})",
       R"({"op": "sort", "keys": ["id"], "descending": [true], "nulls_first": false, "memory": 5})",
       R"({"op": "repartition", "blocks": 0})", R"({"op": "slice", "begin": 5, "end": 3})",
       R"({"op": "join", "on": ["id"], "right_on": [], "type": "cross", "left_suffix": "",
            "right_suffix": "", "memory": 0, "right": {}})",
       R"({"op": "union", "others": []})"}) {
    Json json = files_.left().to_json();
    json["operations"].push_back(Json::parse(broken));
    EXPECT_THAT(message_of([&] { Dataset::from_json(json); }), Not(HasSubstr("exception")))
        << broken;
  }
}

TEST_F(WideTest, TwoWorkersTrainOnSortedAndShuffledRowsAndGoOnInTheMiddle) {
  for (const Dataset& dataset :
       {files_.left().sort("x"), files_.left().random_shuffle({.seed = 9}),
        files_.left().random_shuffle({.seed = 9, .reshuffle_each_epoch = true}),
        files_.left().sort("s").repartition(7).window_shuffle({.rows = 50, .seed = 2}),
        files_.left().split(2)[1],
        files_.left().join(files_.right(), "i", {.right_suffix = "_r"})}) {
    SCOPED_TRACE(dataset.explain());
    Walk options;
    options.options.global_batch_size = 21;
    options.epochs = 2;
    Walked all = walk(dataset, 2, options);
    std::vector<int64_t> given, expected;
    for (const auto& step : all.steps) given.insert(given.end(), step.begin(), step.end());
    for (int64_t epoch : {0, 1}) {
      auto ids = read_ids(dataset.plan(), {.epoch = epoch});
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(given, expected);
    ASSERT_GT(all.positions.size(), 4u);
    for (size_t step : {0u, 3u}) {
      Walk rest = options;
      rest.from = all.positions[step];
      EXPECT_EQ(walk(dataset, 2, rest).steps,
                Steps(all.steps.begin() + static_cast<int64_t>(step) + 1, all.steps.end()));
    }
  }
}

TEST_F(WideTest, PlansInsideOfPlansTravelWithTheirTables) {
  auto table = wide_table(wide_expected()["right"]);
  Dataset joined = from_arrow(wide_table(wide_expected()["columns"]))
                       .join(from_arrow(table), "i", {.right_suffix = "_r"})
                       .union_with(from_arrow(table_of_ids(3, 3))
                                       .map_batches(counted)
                                       .join(files_.left(), "id")
                                       .join(from_arrow(table), "i", {.right_suffix = "_r"}));
  auto wired = from_value<WirePlan>(to_value(WirePlan(*joined.plan()))).plan();
  EXPECT_THAT(message_of([&] { joined.to_json(); }), HasSubstr("cannot be stored"));
  EXPECT_EQ(wired->operations.size(), joined.plan()->operations.size());
  EXPECT_THAT(message_of([&] {
                from_arrow(table).join(files_.right(), "y", {.right_suffix = "2"}).to_json();
              }),
              HasSubstr("its rows are in memory"));
  EXPECT_THAT(message_of([&] {
                files_.right().join(from_arrow(table), "y", {.right_suffix = "2"}).to_json();
              }),
              HasSubstr("its rows are in memory"));
}

TEST_F(WideTest, BadInputIsToldWhenThePlanIsBuilt) {
  Dataset rows = files_.left();
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { rows.sort("idd"); }),
              AllOf(HasSubstr("in sort(idd)"), HasSubstr("there is no column 'idd'")));
  EXPECT_THAT(message_of([&] { rows.sort(std::vector<std::string>{}); }),
              HasSubstr("at least one"));
  EXPECT_THAT(message_of([&] { rows.sort({"id", "id"}); }), HasSubstr("id"));
  EXPECT_THAT(message_of([&] {
                rows.sort({"id", "i"}, {.descending_keys = {true}});
              }),
              HasSubstr("got 1 directions"));
  EXPECT_THAT(message_of([&] { rows.sort("id", {.memory_bytes = 5}); }), HasSubstr("memory_bytes"));
  EXPECT_THAT(message_of(ErrorKind::kUserCode,
                         [&] {
                           rows.map_batches([](const BatchPtr&) -> BatchPtr {
                                 throw std::runtime_error("broken on purpose");
                               })
                               .sort("id")
                               .to_table();
                         }),
              HasSubstr("broken on purpose"));
  EXPECT_THAT(message_of([&] { rows.map_batches(counted).sort("nothing").to_table(); }),
              AllOf(HasSubstr("in sort(nothing)"), HasSubstr("no column 'nothing'")));
  EXPECT_EQ(rows.filter(col("id") < 0).sort("x").count(), 0);
  EXPECT_EQ(rows.filter(col("id") < 0).sort("x").to_table()->num_columns(), 9);
  EXPECT_EQ(rows.filter(col("id") < 0).random_shuffle().to_table()->num_rows(), 0);
}

// As on a full disk: no file may become larger than this.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small{bytes, before_.rlim_max};
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(WideTest, AFullDiskIsAnErrorThatSaysSo) {
  Dataset few = from_arrow(table_of_ids(200'000, 50'000)).repartition(3);
  Dataset many = range(6'000'000);
  for (const char* name : {"a", "b", "c"}) many = many.with_column(name, col("id") * 0.5);
  many = many.random_shuffle({.seed = 1, .memory_bytes = 64 << 20});
  SmallFiles small(64 << 10);
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { few.to_table(); }),
              AllOf(HasSubstr("writing the rows before repartition(3) to a temporary file"),
                    HasSubstr("File too large"), HasSubstr("TMPDIR")));
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { many.to_table(); }),
              AllOf(HasSubstr("what does not fit into memory cannot be written"),
                    HasSubstr("temporary_folder")));
}

// Takes batches and forgets them.
class LargestBatch final : public RowSink {
 public:
  void add(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    rows += batch->num_rows();
    bytes = std::max(bytes, bytes_of_batch(*batch));
  }
  void end_fragment() override {}
  void cut_only_where_told(int64_t) override {}
  void use(std::shared_ptr<const StoredRows>) override { ADD_FAILURE() << "it gives no batches"; }

  int64_t rows = 0, bytes = 0;  // of the largest
};

// What the last operation of a plan gives.
LargestBatch largest_batch(const Dataset& dataset, const Dataset& given) {
  const auto& operation =
      dynamic_cast<const MaterialisingOperation&>(*dataset.plan()->operations.back());
  Stream stream(given.plan(), {}, {});
  auto next = [&]() -> std::shared_ptr<arrow::RecordBatch> {
    auto block = stream.next();
    return block ? block->batch : nullptr;
  };
  LargestBatch largest;
  operation.run({.next = next, .schema = schema_of(*given.plan()), .live = {}, .threads = 2},
                largest);
  return largest;
}

// Keys, and a text for each.
Dataset texts_of(int64_t rows, const std::function<int64_t(int64_t)>& key_of,
                 const std::function<int64_t(int64_t)>& length_of) {
  arrow::Int64Builder keys;
  arrow::StringBuilder texts;
  for (int64_t i = 0; i < rows; ++i) {
    check(keys.Append(key_of(i)), "keys");
    check(texts.Append(std::string(static_cast<size_t>(length_of(i)), 'x')), "texts");
  }
  return from_arrow(arrow::Table::Make(
      arrow::schema({arrow::field("key", arrow::int64()), arrow::field("text", arrow::utf8())}),
      {check(keys.Finish(), "keys"), check(texts.Finish(), "texts")}));
}

// A join repeats a large row, and a sort brings large ones together; memory has some of them at a
// time only.
TEST_F(WideTest, LargeRowsComeInSmallBatches) {
  constexpr int64_t kLarge = 500'000, kMost = 17 << 20;
  Dataset left = range(200).with_column("key", col("id") * 0 + 7);
  Dataset right = texts_of(
      20'000, [](int64_t i) { return i; }, [](int64_t i) { return i == 7 ? kLarge : 1; });
  constexpr int64_t kMemory = int64_t{1} << 30;  // all rows are kept
  LargestBatch joined = largest_batch(left.join(right, "key", {.memory_bytes = kMemory}), left);
  EXPECT_EQ(joined.rows, 200);
  EXPECT_GE(joined.bytes, kLarge);
  EXPECT_LE(joined.bytes, kMost);

  Dataset mixed = texts_of(
      50'000, [](int64_t i) { return i % 500; }, [](int64_t i) { return i % 500 ? 1 : kLarge; });
  LargestBatch sorted = largest_batch(mixed.sort("key", {.memory_bytes = kMemory}), mixed);
  EXPECT_EQ(sorted.rows, 50'000);
  EXPECT_GE(sorted.bytes, kLarge);
  EXPECT_LE(sorted.bytes, kMost);
}

TEST_F(WideTest, StoppingEndsIt) {
  Dataset rows = from_arrow(table_of_ids(500'000, 50'000)).random_shuffle({.seed = 1});
  std::atomic<int> asked = 0;
  EXPECT_EQ(last_stage(rows.plan(), 0, {.threads = 2}, [&] { return ++asked > 3; }), nullptr);
}

}  // namespace
}  // namespace manta::data
