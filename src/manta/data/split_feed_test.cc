// The readers of several hosts share the windows of a pass, and each worker sees what it sees on
// one host. Hosts are threads here; tests/hosts_test.cc has them as such.

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <fstream>
#include <future>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/data/exchange_messages_internal.h"
#include "manta/data/feed_fixture_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<arrow::RecordBatch> third_of_rows(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  arrow::Int64Builder ids;
  for (int64_t id : ints(*batch, "id")) {
    for (int64_t i = 0; i < id % 3; ++i) check(ids.Append(id * 10 + i), "id");
  }
  auto column = check(ids.Finish(), "ids");
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                  column->length(), {column});
}

class SplitFeedTest : public testing::Test {
 protected:
  Dataset rows() {
    return read_parquet({folder_.write_rows("a.parquet", 0, 700, 100),
                         folder_.write_rows("b.parquet", 700, 40, 1000),
                         folder_.write_rows("c.parquet", 740, 503, 64)});
  }
  // Records of different lengths: how many rows a window has is known when it is decoded.
  Dataset records() {
    std::ofstream file(folder_ / "a.csv", std::ios::binary);
    file << "id,text\n";
    for (int64_t i = 0; i < 1500; ++i)
      file << i << "," << std::string(static_cast<size_t>(i % 7 == 0 ? i % 300 : 1), 'x') << "\n";
    file.close();
    return read_csv(folder_ / "a.csv", {.fragment_bytes = 3000});
  }
  ParquetFolder folder_;
};

struct SplitCase {
  const char* name;
  Dataset (*make)(const Dataset&);
};
const SplitCase kSplitPlans[] = {
    {"as it is", [](const Dataset& d) { return d; }},
    {"filtered, windows in between are empty",
     [](const Dataset& d) { return d.filter(col("id") < 150 || col("id") * 2 > 1000); }},
    {"only the last window has rows", [](const Dataset& d) { return d.filter(col("id") > 1200); }},
    {"changed in number",
     [](const Dataset& d) { return d.map_batches(third_of_rows, {.batch_size = 37}); }},
    {"shuffled", [](const Dataset& d) { return d.window_shuffle({.rows = 250, .seed = 5}); }},
    {"all of it",
     [](const Dataset& d) {
       return d.drop_na()
           .window_shuffle({.rows = 150, .seed = 7})
           .map_batches(third_of_rows, {.batch_size = 50})
           .filter(col("id") != 77);
     }},
};

TEST_F(SplitFeedTest, StepsAndPositionsAreTheSameForAnyNumberOfHosts) {
  for (const Dataset& all : {rows(), records()}) {
    for (const auto& plan : kSplitPlans) {
      SCOPED_TRACE(plan.name);
      Dataset dataset = plan.make(all);
      Walk options{.options = {.global_batch_size = 23}, .epochs = 2};
      auto alone = walk(dataset, 1, options);
      for (int hosts : {2, 3, 4}) {
        for (int world : {hosts, 2 * hosts + 1}) {
          SCOPED_TRACE(testing::Message() << hosts << " hosts, " << world << " workers");
          options.hosts = hosts;
          auto together = walk(dataset, world, options);
          EXPECT_EQ(together.steps, alone.steps);
          EXPECT_EQ(together.positions, alone.positions);
        }
      }
    }
  }
}

TEST_F(SplitFeedTest, EachHostDecodesItsPart) {
  Dataset dataset = read_parquet(folder_.write_rows("even.parquet", 0, 1200, 100));
  auto walked = walk(dataset, 4, {.options = {.batch_size = 16}, .hosts = 4});
  EXPECT_EQ(walked.rows_decoded, 300);
}

TEST_F(SplitFeedTest, EveryRestIsUsedOnce) {
  for (int64_t total = 96; total < 130; ++total) {
    Dataset dataset = read_parquet(folder_.write_rows("rest.parquet", 0, total, 9));
    for (bool drop_last : {false, true}) {
      Walk options{.options = {.global_batch_size = 32, .drop_last = drop_last}};
      auto alone = walk(dataset, 3, options);
      options.hosts = 3;
      auto together = walk(dataset, 3, options);
      EXPECT_EQ(together.steps, alone.steps) << total;
      EXPECT_EQ(together.positions, alone.positions) << total;
    }
  }
}

TEST_F(SplitFeedTest, GoesOnAnywhere) {
  for (const Dataset& dataset :
       {rows().window_shuffle({.rows = 130, .seed = 2}), records().filter(col("id") % 3 != 1)}) {
    Walk options{.options = {.global_batch_size = 30}};
    auto whole = walk(dataset, 1, options);
    for (size_t step = 0; step < whole.steps.size(); step += 5) {
      Walk rest_options{.options = options.options,
                        .from = whole.positions[step],
                        .hosts = 2 + static_cast<int>(step % 3)};
      auto rest = walk(dataset, 4, rest_options);
      Steps expected(whole.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1,
                     whole.steps.end());
      EXPECT_EQ(rest.steps, expected) << "after step " << step;
    }
  }
}

TEST_F(SplitFeedTest, APositionThatTheDataDoesNotHaveIsRefused) {
  Dataset dataset = read_parquet(folder_.write_rows("even.parquet", 0, 1200, 100));
  Walk options{.options = {.global_batch_size = 32}, .from = {0, 350, 2, 200}, .hosts = 2};
  Error error = error_of([&] { walk(dataset, 2, options); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("window 2 has the rows before row 300 only"));
}

TEST_F(SplitFeedTest, BudgetsOfOneByteStandInNobodysWay) {
  Dataset dataset = rows().window_shuffle({.rows = 200, .seed = 1});
  for (int64_t batch : {8, 100, 900}) {  // the last is more rows than some windows have
    Walk options{.options = {.global_batch_size = batch}};
    auto alone = walk(dataset, 1, options);
    options.feed = {.threads = 2, .byte_budget = 1, .read_ahead = 4};
    options.hosts = 3;
    auto together = walk(dataset, 3, options);
    EXPECT_EQ(together.steps, alone.steps);
  }
}

TEST_F(SplitFeedTest, ColumnsOfEveryKindTravel) {
  auto type = arrow::struct_(
      {arrow::field("n", arrow::int32()), arrow::field("l", arrow::list(arrow::utf8()))});
  arrow::Int64Builder ids;
  Json structs = Json::array(), words = Json::array();
  for (int64_t i = 0; i < 600; ++i) {
    check(ids.Append(i), "id");
    structs.push_back(i % 5 == 0 ? Json() : Json{{"n", i}, {"l", {std::to_string(i), "x"}}});
    words.push_back(std::string(static_cast<size_t>(i % 4), 'w'));
  }
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("s", type),
                     arrow::field("w", arrow::dictionary(arrow::int32(), arrow::utf8()))}),
      {check(ids.Finish(), "id"), array_from_json(type, structs),
       array_from_json(arrow::dictionary(arrow::int32(), arrow::utf8()), words)});
  arrow::TableBatchReader reader(*table);
  reader.set_chunksize(50);
  auto chunked = check(arrow::Table::FromRecordBatchReader(&reader), "chunks");
  Dataset dataset = from_arrow(chunked);
  std::mutex mutex;
  for (int hosts : {1, 3}) {
    std::map<int64_t, std::string> seen;
    walk(dataset, 3,
         {.options = {.global_batch_size = 10},
          .hosts = hosts,
          .look = [&](const arrow::RecordBatch& batch) {
            std::lock_guard lock(mutex);
            for (int64_t i = 0; i < batch.num_rows(); ++i) {
              auto id = ints(batch, "id")[static_cast<size_t>(i)];
              seen[id] = batch.GetColumnByName("s")->GetScalar(i).ValueOrDie()->ToString() +
                         batch.GetColumnByName("w")->GetScalar(i).ValueOrDie()->ToString();
            }
          }});
    ASSERT_EQ(seen.size(), 600);
    EXPECT_THAT(seen.at(7), HasSubstr("www"));
    EXPECT_THAT(seen.at(599), HasSubstr("599"));
    EXPECT_THAT(seen.at(595), HasSubstr("null"));
  }
}

TEST_F(SplitFeedTest, AHostThatLeavesEarlyServesTheOthers) {
  Dataset dataset = rows();
  std::vector<UniqueFd> ends;
  auto clients = make_clients(2, ends);
  auto readers = serve(dataset, std::move(ends), {.hosts = 2});
  auto count = [&](size_t rank, int64_t max_steps) {
    return std::async(std::launch::async, [max_steps, client = std::move(clients[rank])]() mutable {
      auto state = std::make_shared<ShardState>(std::move(client), "train", Position());
      int64_t rows = 0, steps = 0;
      for (const auto& batch : DataShard(state).iter_batches({.global_batch_size = 30})) {
        rows += batch->num_rows();
        if (++steps == max_steps) break;
      }
      return rows;
    });
  };
  auto first = count(0, 2), second = count(1, -1);
  EXPECT_EQ(first.get(), 30);
  EXPECT_EQ(second.get(), 1243 - 621);  // half of each step, rounded up
  for (auto& reader : readers) reader.join();
}

TEST_F(SplitFeedTest, HostsMustIterateInTheSameWay) {
  Dataset dataset = rows();
  std::vector<UniqueFd> ends;
  auto clients = make_clients(2, ends);
  auto readers = serve(dataset, std::move(ends), {.hosts = 2});
  std::vector<std::future<Error>> errors;
  for (int rank = 0; rank < 2; ++rank) {
    errors.push_back(std::async(
        std::launch::async, [rank, client = std::move(clients[static_cast<size_t>(rank)])] {
          auto state = std::make_shared<ShardState>(client, "train", Position());
          return error_of([&] {
            for (const auto& batch :
                 DataShard(state).iter_batches({.global_batch_size = 30 + rank})) {
              EXPECT_GT(batch->num_rows(), 0);
            }
          });
        }));
  }
  clients.clear();
  for (auto& each : errors) {
    Error error = each.get();
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("must iterate over the same data in the same way"));
    EXPECT_THAT(error.what(), HasSubstr("steps of 31 rows"));
  }
  for (auto& reader : readers) reader.join();
}

std::shared_ptr<arrow::RecordBatch> fail_at_900(const std::shared_ptr<arrow::RecordBatch>& batch) {
  for (int64_t id : ints(*batch, "id")) {
    if (id == 900) throw std::runtime_error("row 900 is bad");
  }
  return batch;
}

TEST_F(SplitFeedTest, AnErrorOfOneHostIsAnErrorOfAll) {
  Dataset dataset = rows().map_batches(fail_at_900);
  std::vector<UniqueFd> ends;
  auto clients = make_clients(3, ends);
  auto readers = serve(dataset, std::move(ends), {.hosts = 3});
  std::vector<std::future<Error>> errors;
  for (auto& client : clients) {
    errors.push_back(std::async(std::launch::async, [client = std::move(client)] {
      auto state = std::make_shared<ShardState>(client, "train", Position());
      return error_of([&] {
        for (const auto& batch : DataShard(state).iter_batches({.global_batch_size = 30})) {
          EXPECT_GT(batch->num_rows(), 0);
        }
      });
    }));
  }
  clients.clear();
  for (auto& each : errors) EXPECT_THAT(each.get().what(), HasSubstr("row 900 is bad"));
  for (auto& reader : readers) reader.join();
}

// A reader's process that is killed closes its connections.
TEST_F(SplitFeedTest, ALostHostIsAnErrorAndNoEndOfTheEpoch) {
  Dataset dataset = rows();
  auto peers = make_peers(2, 2);
  UniqueFd other(::dup(peers[1].connections[0]->fd()));
  peers[0].always = true;
  std::vector<UniqueFd> ends;
  auto clients = make_clients(1, ends);
  std::thread reader([&] {
    serve_feed({{"train", dataset.plan()}}, std::move(ends), {.threads = 1}, std::move(peers[0]));
  });
  auto iterate = [&] {
    auto state = std::make_shared<ShardState>(std::move(clients[0]), "train", Position());
    for (const auto& batch : DataShard(state).iter_batches({.global_batch_size = 30})) {
      EXPECT_GT(batch->num_rows(), 0);
    }
  };
  auto walked = std::async(std::launch::async, [&] { return error_of(iterate); });
  Channel channel(std::move(other));
  Frame frame;
  ASSERT_TRUE(channel.receive(&frame, Deadline::after(seconds(30))));  // it takes part
  peers[1].connections[0].reset();
  ::shutdown(channel.fd(), SHUT_RDWR);
  Error error = walked.get();
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(error.what(), HasSubstr("the data reader of host n1 has gone"));
  reader.join();
}

// What another reader must not say. Each is told to a reader that takes part in a pass.
TEST_F(SplitFeedTest, NonsenseOfAnotherReaderIsRefused) {
  struct Case {
    BetweenReaders message;
    const char* why;
  };
  std::vector<Case> cases;
  cases.push_back({WindowRows{0, 0, 100, 100}, "counts window 0"});
  cases.push_back({WindowRows{0, 3, 100, 100}, "where window 1 is its next"});
  cases.push_back({WindowRows{0, 1, -1, 100}, "has -1 rows"});
  cases.push_back({WindowRows{0, 1, INT64_MAX, 100}, "rows of 100 bytes"});
  cases.push_back({AskRows{0, 0, 1, 100, 100, 110, -1}, "which are not here"});
  cases.push_back({AskRows{0, 0, 0, 0, 0, INT64_MAX, -1}, "which are not here"});
  cases.push_back({AskRows{0, 0, 0, -5, -5, 10, -1}, "which are not here"});
  cases.push_back({RowsSchema{0, "no schema"}, "a schema that cannot be read"});
  cases.push_back({RowsPart{0, 0, true, "no rows"}, "rows without a schema"});
  for (auto& each : cases) {
    SCOPED_TRACE(each.why);
    Dataset dataset = rows();
    auto peers = make_peers(2, 2);
    peers[0].always = true;
    std::vector<UniqueFd> ends;
    auto clients = make_clients(1, ends);
    Channel channel(std::move(peers[1].connections[0]));
    std::thread reader([&] {
      serve_feed({{"train", dataset.plan()}}, std::move(ends), {.threads = 1}, std::move(peers[0]));
    });
    auto walked = std::async(std::launch::async, [&] {
      auto state = std::make_shared<ShardState>(std::move(clients[0]), "train", Position());
      return error_of([&] {
        for (const auto& batch : DataShard(state).iter_batches({.global_batch_size = 30})) {
          EXPECT_GT(batch->num_rows(), 0);
        }
      });
    });
    channel.send([&](OutBuffer& out) {
      std::visit([&](const auto& message) { encode_message<BetweenReaders>(out, message); },
                 each.message);
    });
    EXPECT_THAT(walked.get().what(), HasSubstr(each.why));
    reader.join();
  }
}

// A reader that nobody asks for rows keeps what its budget allows, and one window.
TEST_F(SplitFeedTest, ASlowHostLimitsWhatOthersDecode) {
  Dataset dataset = read_parquet(folder_.write_rows("even.parquet", 0, 4000, 100));
  auto peers = make_peers(2, 2);
  peers[0].always = true;
  std::vector<UniqueFd> ends;
  auto clients = make_clients(1, ends);
  Channel channel(std::move(peers[1].connections[0]));
  FeedOptions options{.threads = 1, .read_ahead = 20'000};  // a window has about 2,500 bytes
  std::thread reader([&] {
    serve_feed({{"train", dataset.plan()}}, std::move(ends), options, std::move(peers[0]));
  });
  auto state = std::make_shared<ShardState>(std::move(clients[0]), "train", Position());
  auto pass = DataShard(state).begin_pass({.global_batch_size = 30});
  std::vector<int64_t> counted;
  Frame frame;
  bool is_quiet = false;
  while (!is_quiet) {
    try {
      ASSERT_TRUE(channel.receive(&frame, Deadline::after(std::chrono::milliseconds(500))));
      auto message = decode_message<BetweenReaders>(frame);
      if (auto* rows = std::get_if<WindowRows>(&message)) counted.push_back(rows->window);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kTimeout);
      is_quiet = true;
    }
  }
  EXPECT_GE(counted.size(), 2);
  EXPECT_LE(counted.size(), 8);  // of 20
  pass.reset();
  state.reset();
  ::shutdown(channel.fd(), SHUT_RDWR);
  reader.join();
}

TEST_F(SplitFeedTest, WhatCannotBeSplitIsReadByEachHost) {
  Dataset dataset = rows().sort("half").filter(col("id") != 5);
  std::vector<std::string> told;
  Walk options{.options = {.global_batch_size = 30}, .epochs = 2};
  auto alone = walk(dataset, 1, options);
  options.hosts = 2;
  options.tell = [&](const std::string& text) { told.push_back(text); };
  auto together = walk(dataset, 2, options);
  EXPECT_EQ(together.steps, alone.steps);
  EXPECT_EQ(together.positions, alone.positions);
  EXPECT_THAT(told, ElementsAre(HasSubstr("each of 2 hosts reads all of it: each host needs all "
                                          "rows for sort")));
}

std::shared_ptr<arrow::RecordBatch> take_time(const std::shared_ptr<arrow::RecordBatch>& batch) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return batch;
}

TEST_F(SplitFeedTest, TheFirstHostMeasuresAndDecides) {
  Dataset light = from_arrow(table_of_ids(100'000, 10'000));
  Dataset heavy = rows().map_batches(take_time);
  Dataset few = from_arrow(table_of_ids(100, 100));
  struct Case {
    Dataset dataset;
    const char* told;
  };
  for (const auto& each : {Case{light, "each of 2 hosts reads all of it: a window takes"},
                           Case{heavy, "its windows are split between 2 hosts: a window takes"},
                           Case{few, "there are fewer windows (1) than hosts (2)"}}) {
    std::vector<std::string> told;
    Walk options{.options = {.global_batch_size = 50}, .epochs = 2};
    auto alone = walk(each.dataset, 1, options);
    options.hosts = 2;
    options.always_split = false;
    options.tell = [&](const std::string& text) { told.push_back(text); };
    EXPECT_EQ(walk(each.dataset, 2, options).steps, alone.steps);
    EXPECT_THAT(told, ElementsAre(HasSubstr(each.told)));
  }
}

}  // namespace
}  // namespace manta::data
