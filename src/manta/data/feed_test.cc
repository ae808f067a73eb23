// The promise about rows: the rows of a step depend only on data, plan, epoch and global batch. The
// reader and the workers run as threads here; tests/ has them as processes.

#include <arrow/compute/api.h>
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/data/feed_fixture_internal.h"

namespace manta::data {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

std::vector<int64_t> sorted_rows(const Steps& steps) {
  std::vector<int64_t> rows;
  for (const auto& step : steps) rows.insert(rows.end(), step.begin(), step.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

// Gives each row with an even id twice, and drops ids that are multiples of 5.
std::shared_ptr<arrow::RecordBatch> change_row_counts(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  arrow::Int64Builder ids;
  for (int64_t id : ints(*batch, "id")) {
    if (id % 5 == 0) continue;
    check(ids.Append(id), "id");
    if (id % 2 == 0) check(ids.Append(id + 1'000'000), "id");
  }
  auto column = check(ids.Finish(), "ids");
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                  column->length(), {column});
}

class FeedTest : public testing::Test {
 protected:
  // Files of different sizes, one of them a single row group.
  Dataset rows() {
    return read_parquet({folder_.write_rows("a.parquet", 0, 700, 100),
                         folder_.write_rows("b.parquet", 700, 40, 1000),
                         folder_.write_rows("c.parquet", 740, 503, 64)});
  }
  ParquetFolder folder_;
};

struct PlanCase {
  const char* name;
  Dataset (*make)(const Dataset&);
};
const PlanCase kPlans[] = {
    {"as it is", [](const Dataset& d) { return d; }},
    {"filtered",
     [](const Dataset& d) { return d.filter(col("id") * 7 > 300 && col("half") < 500); }},
    {"changed in number",
     [](const Dataset& d) { return d.map_batches(change_row_counts, {.batch_size = 37}); }},
    {"shuffled", [](const Dataset& d) { return d.window_shuffle({.rows = 250, .seed = 5}); }},
    {"all of it",
     [](const Dataset& d) {
       return d.drop_na()
           .window_shuffle({.rows = 150, .seed = 7})
           .map_batches(change_row_counts, {.batch_size = 50})
           .filter(col("id") != 77);
     }},
};

TEST_F(FeedTest, StepsAreTheSameForAnyNumberOfWorkers) {
  Dataset all = rows();
  for (const auto& plan : kPlans) {
    SCOPED_TRACE(plan.name);
    Dataset dataset = plan.make(all);
    Walk options{.options = {.global_batch_size = 64}, .epochs = 3};
    auto alone = walk(dataset, 1, options);
    Steps one_epoch = walk(dataset, 1, {.options = {.global_batch_size = 64}}).steps;
    std::vector<int64_t> expected = ints(*dataset.to_table(), "id");
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(sorted_rows(one_epoch), expected);  // each row once
    ASSERT_EQ(alone.steps.size(), 3 * one_epoch.size());
    EXPECT_LE(alone.rows_decoded, 1243 * 1.05);
    for (int world : {2, 3, 8}) {
      SCOPED_TRACE(world);
      auto together = walk(dataset, world, options);
      EXPECT_EQ(together.steps, alone.steps);
      EXPECT_EQ(together.positions, alone.positions);
      EXPECT_LE(together.rows_decoded, 1243 * 1.05);  // once per host, however many workers
    }
  }
}

TEST_F(FeedTest, EveryRestIsUsedOnce) {
  for (int64_t total = 96; total < 130; ++total) {
    Dataset dataset = read_parquet(folder_.write_rows("rest.parquet", 0, total, 50));
    Steps expected;
    for (int world : {1, 2, 3, 8}) {
      auto walked = walk(dataset, world, {.options = {.global_batch_size = 32}});
      std::vector<int64_t> sizes;
      for (const auto& step : walked.steps) sizes.push_back(static_cast<int64_t>(step.size()));
      int64_t rest = total % 32;
      std::vector<int64_t> wanted(static_cast<size_t>(total / 32), 32);
      if (rest >= 16) {
        wanted.push_back(rest);
      } else {
        wanted.back() += rest;
      }
      EXPECT_EQ(sizes, wanted) << total << " rows, " << world << " workers";
      if (world == 1) expected = walked.steps;
      EXPECT_EQ(walked.steps, expected);
    }
  }
}

TEST_F(FeedTest, DropLastLeavesTheRestOut) {
  Dataset dataset = read_parquet(folder_.write_rows("rest.parquet", 0, 127, 50));
  auto walked =
      walk(dataset, 2, {.options = {.global_batch_size = 32, .drop_last = true}, .epochs = 2});
  ASSERT_EQ(walked.steps.size(), 6);
  for (const auto& step : walked.steps) EXPECT_EQ(step.size(), 32);
  Dataset one_more = read_parquet(folder_.write_rows("one.parquet", 0, 97, 50));
  auto dropped = walk(one_more, 2, {.options = {.global_batch_size = 32, .drop_last = true}});
  EXPECT_EQ(dropped.steps.size(), 3);
}

TEST_F(FeedTest, AnOddGlobalBatchIsTheSameForAnyNumberOfWorkers) {
  for (int64_t total : {34, 26, 20}) {  // a rest of 8, of none, of 7
    Dataset dataset = read_parquet(folder_.write_rows("odd.parquet", 0, total, 10));
    auto alone = walk(dataset, 1, {.options = {.global_batch_size = 13}});
    for (int world : {2, 5, 7}) {
      auto together = walk(dataset, world, {.options = {.global_batch_size = 13}});
      EXPECT_EQ(together.steps, alone.steps) << total << " rows, " << world << " workers";
    }
  }
}

TEST_F(FeedTest, MoreWorkersThanRowsThatAreLeftIsAnError) {
  Dataset dataset = read_parquet(folder_.write_rows("rest.parquet", 0, 26, 50));
  auto first = walk(dataset, 1, {.options = {.batch_size = 8}});
  ASSERT_EQ(first.steps.size(), 3);  // of 8, 8 and 10 rows
  Walk rest{.options = {.batch_size = 8}, .from = first.positions[1]};
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { walk(dataset, 11, rest); }),
              HasSubstr("data set 'train' has 10 rows left behind row 16 of this epoch, which is "
                        "not one for each of 11 workers: go on with at most 10 workers"));
  EXPECT_EQ(walk(dataset, 10, rest).steps, (Steps{first.steps[2]}));
}

TEST_F(FeedTest, ResumesAtAnyStepWithAnyNumberOfWorkers) {
  Dataset all = rows();
  std::mt19937 random(11);
  for (const auto& plan : kPlans) {
    SCOPED_TRACE(plan.name);
    Dataset dataset = plan.make(all);
    Walk options{.options = {.global_batch_size = 64}, .epochs = 2};
    auto whole = walk(dataset, 2, options);
    for (size_t step = 0; step < whole.steps.size(); step += 1 + random() % 3) {
      Position from = whole.positions[step];
      int64_t epochs = 2 - from.epoch;
      int world = 1 + static_cast<int>(random() % 4);
      auto rest =
          walk(dataset, world, {.options = options.options, .from = from, .epochs = epochs});
      Steps expected(whole.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1,
                     whole.steps.end());
      EXPECT_EQ(rest.steps, expected) << "after step " << step << " with " << world << " workers";
    }
  }
}

TEST_F(FeedTest, ResumingReadsAtMostOneWindowAgain) {
  Dataset dataset = rows().window_shuffle({.rows = 150, .seed = 5});
  auto whole = walk(dataset, 2, {.options = {.global_batch_size = 32}});
  size_t middle = whole.steps.size() / 2;
  auto rest =
      walk(dataset, 2, {.options = {.global_batch_size = 32}, .from = whole.positions[middle]});
  int64_t taken = 32 * static_cast<int64_t>(middle + 1);
  EXPECT_LE(rest.rows_decoded, 1243 - taken + 100 + 250);  // a window is at most 249 rows here
}

TEST_F(FeedTest, AStepLargerThanTheBudgetIsServed) {
  Dataset dataset = rows();
  auto walked = walk(dataset, 3,
                     {.options = {.global_batch_size = 900},
                      .epochs = 2,
                      .feed = {.threads = [] { return 2; }, .byte_budget = 1, .read_ahead = 1}});
  ASSERT_EQ(walked.steps.size(), 2);
  EXPECT_EQ(walked.steps[0].size(), 1243);  // a rest of under half a step joins the last
}

TEST_F(FeedTest, EachPassAsksForItsThreads) {
  std::atomic<int> asked = 0;
  walk(rows(), 2, {.epochs = 3, .feed = {.threads = [&] { return ++asked; }}});
  EXPECT_EQ(asked, 3);
}

// Held blocks must never keep a worker from the rows that it needs in order to release any.
TEST_F(FeedTest, ABudgetThatIsUsedUpDoesNotStopAnybody) {
  Dataset dataset = rows();
  FeedOptions options{.threads = [] { return 2; }, .byte_budget = 1, .read_ahead = 1};
  std::vector<UniqueFd> ends;
  auto clients = make_clients(2, ends);
  std::thread reader([&] {
    serve_feed({{"train", dataset.plan()}, {"valid", dataset.plan()}}, std::move(ends), options);
  });
  std::vector<std::future<size_t>> counts;
  for (int rank = 0; rank < 2; ++rank) {
    counts.push_back(std::async(std::launch::async, [client = clients[static_cast<size_t>(rank)]] {
      DataShard train(std::make_shared<ShardState>(client, "train", Position()));
      DataShard valid(std::make_shared<ShardState>(client, "valid", Position()));
      std::vector<std::shared_ptr<arrow::RecordBatch>> kept;
      for (const auto& batch : train.iter_batches({.batch_size = 64})) {
        kept.push_back(batch);
        for (const auto& other : valid.iter_batches({.batch_size = 10})) kept.push_back(other);
      }
      return kept.size();
    }));
  }
  clients.clear();
  EXPECT_EQ(counts[0].get(), 10 + 10 * 62);  // 1243 rows in steps of 128 and of 20
  EXPECT_EQ(counts[1].get(), 10 + 10 * 62);
  reader.join();
}

TEST_F(FeedTest, DictionaryColumnsTravelAsWhatTheyStandFor) {
  auto type = arrow::dictionary(arrow::int32(), arrow::utf8());
  auto column =
      check(arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["a", "b", "a", "c"])"), "c");
  auto encoded = check(arrow::compute::DictionaryEncode(column), "encoding").make_array();
  arrow::Int64Builder ids;
  check(ids.AppendValues({0, 1, 2, 3}), "ids");
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("kind", type)}),
      {check(ids.Finish(), "ids"), encoded});
  auto out = check(arrow::io::FileOutputStream::Open(folder_.file("d.parquet")), "open");
  auto properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 10,
                                   parquet::default_writer_properties(), properties),
        "write");
  check(out->Close(), "close");
  auto expected = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("kind", arrow::utf8())}), 4,
      {table->column(0)->chunk(0), column});
  Walk options{.options = {.batch_size = 2}};
  options.look = [&](const arrow::RecordBatch& batch) {
    auto rows = expected->Slice(ints(batch, "id").front(), 2);
    EXPECT_TRUE(batch.Equals(*rows)) << batch.ToString() << rows->ToString();
  };
  auto walked = walk(read_parquet(folder_.file("d.parquet")), 2, options);
  EXPECT_EQ(walked.steps, (Steps{{0, 1, 2, 3}}));
}

// Views into a buffer that all rows share. If each block carried the whole buffer, blocks would
// never become small.
std::shared_ptr<arrow::RecordBatch> with_long_views(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  arrow::StringViewBuilder views;
  for (int64_t id : ints(*batch, "id")) {
    check(views.Append(std::string(20'000, static_cast<char>('a' + id % 26))), "a view");
  }
  return check(batch->SelectColumns({batch->schema()->GetFieldIndex("id")})
                   .ValueOrDie()
                   ->AddColumn(1, "view", check(views.Finish(), "views")),
               "adding views");
}

TEST_F(FeedTest, ViewsTravelAsTexts) {
  constexpr int64_t kRows = 1'500;  // 30 MB
  auto path = folder_.write_rows("views.parquet", 0, kRows, kRows);
  Walk options{.options = {.batch_size = 50}};
  std::atomic<int64_t> rows = 0;
  options.look = [&](const arrow::RecordBatch& batch) {
    ASSERT_EQ(batch.schema()->field(1)->type()->id(), arrow::Type::LARGE_STRING);
    const auto& texts = static_cast<const arrow::LargeStringArray&>(*batch.column(1));
    for (int64_t id : ints(batch, "id")) {
      auto text = texts.GetView(id - ints(batch, "id").front());
      ASSERT_EQ(text, std::string(20'000, static_cast<char>('a' + id % 26)));
      ++rows;
    }
  };
  walk(read_parquet(path).map_batches(with_long_views, {.batch_size = kRows}), 1, options);
  EXPECT_EQ(rows, kRows);
}

TEST_F(FeedTest, LeavingALoopEarlyEndsTheEpoch) {
  Dataset dataset = rows();
  auto [mine, other] = socket_pair();
  auto client = std::make_shared<FeedClient>(std::move(mine), 0, 1, seconds(60));
  std::vector<UniqueFd> ends;
  ends.push_back(std::move(other));
  std::thread reader([&] { serve_feed({{"train", dataset.plan()}}, std::move(ends), {}); });
  {
    auto state = std::make_shared<ShardState>(client, "train", Position());
    DataShard shard(state);
    for (const auto& batch : shard.iter_batches({.batch_size = 10})) {
      EXPECT_EQ(batch->num_rows(), 10);
      EXPECT_THROW(shard.iter_batches(), Error);  // one loop at a time
      break;
    }
    EXPECT_EQ(shard.epoch(), 1);
    std::shared_ptr<arrow::RecordBatch> kept;
    std::vector<int64_t> seen;
    for (const auto& batch : shard.iter_batches({.batch_size = 100})) {
      if (!kept) {
        kept = batch;
        seen = ints(*batch, "id");
      }
    }
    EXPECT_EQ(ints(*kept, "id"), seen);  // still there, though the epoch is over
    EXPECT_EQ(shard.epoch(), 2);
  }
  client.reset();
  reader.join();
}

TEST_F(FeedTest, BadInputIsSaid) {
  Dataset dataset = rows();
  Dataset few = dataset.filter(col("id") < 3);
  EXPECT_THAT(message_of([&] { walk(few, 4, {.options = {.batch_size = 8}}); }),
              HasSubstr("data set 'train' gives 3 rows, which is not one for each of 4 workers"));
  Dataset none = dataset.filter(col("id") < 0);
  EXPECT_THAT(message_of([&] { walk(none, 1, {}); }), HasSubstr("gives 0 rows"));
  EXPECT_THAT(message_of([&] { walk(dataset, 2, {.options = {.batch_size = 0}}); }),
              HasSubstr("batch_size must be positive (was 0)"));
  Dataset broken = dataset.map_batches(
      [](const std::shared_ptr<arrow::RecordBatch>&) -> std::shared_ptr<arrow::RecordBatch> {
        throw std::runtime_error("no idea");
      });
  EXPECT_THAT(message_of([&] { walk(broken, 2, {}); }), HasSubstr("no idea"));
}

TEST_F(FeedTest, PositionsThatTheDataDoesNotHaveAreSaid) {
  Dataset dataset = rows();  // row groups of 100, 40 and 64 rows: 16 windows
  struct {
    Position from;
    const char* why;
  } cases[] = {
      {{0, 5, 1'000'000'000, 2}, "no window 1000000000 in epoch 0"},
      {{0, 1200, 16, 1190}, "has the windows 0 to 15"},
      {{-1, 0, 0, 0}, "must be from 0 to"},
      {{0, -5, 0, 0}, "must be from 0 to"},
      {{0, INT64_MAX, 0, 0}, "must be from 0 to"},
      {{INT64_MAX, 0, 0, 0}, "must be from 0 to"},
      {{0, 101, 0, 0}, "window 0 has the rows before row 100 only"},
      {{0, 2'000, 15, 1'188}, "window 15 has the rows before row 1243 only"},
      {{0, 1'000'000, 3, 999'990}, "window 3 cannot begin with row 999990"},
      {{0, 5, 15, 2}, "window 15 cannot begin with row 2: the windows before it give 1188 rows"},
      {{0, 105, 1, 101}, "window 1 cannot begin with row 101: the windows before it give 100 rows"},
      {{0, 0, 3, 0}, "before the first row the window is 0"},
      {{0, 50, 0, 10}, "window 0 begins with row 0"},
      {{0, 50, 1, 60}, "must begin before the last row taken"},
  };
  for (int hosts : {1, 2, 3}) {
    for (const auto& one : cases) {
      SCOPED_TRACE(testing::Message() << hosts << " hosts, " << one.from.to_json().dump());
      Walk options{.from = one.from, .hosts = hosts};
      std::string message = message_of(ErrorKind::kCorrupt, [&] { walk(dataset, 3, options); });
      EXPECT_THAT(message, HasSubstr("data set 'train' cannot go on at the position " +
                                     one.from.to_json().dump()));
      EXPECT_THAT(message, HasSubstr(one.why));
    }
    // The end of an epoch is a position like any other.
    Walk options{.from = {0, 1243, 15, 1188}, .hosts = hosts};
    EXPECT_TRUE(walk(dataset, 3, options).steps.empty());
  }
}

TEST_F(FeedTest, APositionOfLargerDataIsSaid) {
  Dataset large = rows(), small = read_parquet(folder_.write_rows("small.parquet", 0, 200, 100));
  for (int hosts : {1, 2}) {
    Walk options{.options = {.global_batch_size = 50}, .hosts = hosts};
    auto positions = walk(large, 2, options).positions;
    options.from = positions[positions.size() / 2];
    std::string message = message_of(ErrorKind::kCorrupt, [&] { walk(small, 2, options); });
    EXPECT_THAT(message, HasSubstr("has the windows 0 to 1")) << hosts << " hosts";
  }
}

TEST_F(FeedTest, WorkersThatWantDifferentThingsAreTold) {
  Dataset dataset = rows();
  std::vector<UniqueFd> ends;
  auto clients = make_clients(2, ends);
  std::thread reader([&] { serve_feed({{"train", dataset.plan()}}, std::move(ends), {}); });
  auto iterate = [&](int rank, int64_t batch_size) {
    return std::async(std::launch::async, [&, rank, batch_size] {
      DataShard shard(
          std::make_shared<ShardState>(clients[static_cast<size_t>(rank)], "train", Position()));
      return message_of([&] {
        for (const auto& batch : shard.iter_batches({.batch_size = batch_size})) (void)batch;
      });
    });
  };
  auto first = iterate(0, 10), second = iterate(1, 20);
  EXPECT_THAT(first.get() + second.get(), HasSubstr("in steps of 40 rows"));
  clients.clear();
  reader.join();
}

TEST_F(FeedTest, AWorkerThatNeverComesIsNamed) {
  Dataset dataset = rows();
  auto [mine, other] = socket_pair();
  auto [silent, silent_other] = socket_pair();
  std::vector<UniqueFd> ends;
  ends.push_back(std::move(other));
  ends.push_back(std::move(silent_other));
  auto client = std::make_shared<FeedClient>(std::move(mine), 0, 2, seconds(60));
  FeedOptions options;
  options.timeout = std::chrono::milliseconds(50);
  std::thread reader([&] { serve_feed({{"train", dataset.plan()}}, std::move(ends), options); });
  DataShard shard(std::make_shared<ShardState>(client, "train", Position()));
  EXPECT_THAT(message_of([&] {
                for (const auto& batch : shard.iter_batches()) (void)batch;
              }),
              HasSubstr("rank 1 did not begin epoch 0 of 'train'"));
  shard = DataShard(nullptr);
  client.reset();
  silent.reset();
  reader.join();
}

TEST_F(FeedTest, AReaderThatIsGoneIsSaid) {
  auto [mine, other] = socket_pair();
  auto client = std::make_shared<FeedClient>(std::move(mine), 0, 1, seconds(60));
  other.reset();
  DataShard shard(std::make_shared<ShardState>(client, "train", Position()));
  EXPECT_THAT(message_of([&] {
                for (const auto& batch : shard.iter_batches()) (void)batch;
              }),
              HasSubstr("the data reader has gone"));
}

}  // namespace
}  // namespace manta::data
