// The readers of several hosts share the windows of a pass, and each worker sees what it sees on
// one host. Hosts are threads here; tests/hosts_test.cc has them as such.

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <fstream>
#include <future>
#include <numeric>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/data/exchange_messages_internal.h"
#include "manta/data/exchange_rows_internal.h"
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

BatchPtr without_change(const BatchPtr& batch) { return batch; }

// A reader of another node, as a test plays it.
class OtherReader {
 public:
  explicit OtherReader(std::unique_ptr<Transport> transport) : channel_(std::move(transport)) {}

  // All at once.
  template <class... Messages>
  void say(const Messages&... messages) {
    channel_.send([&](OutBuffer& out) { (encode_message<BetweenReaders>(out, messages), ...); });
  }
  BetweenReaders hear() {
    Frame frame;
    if (!channel_.receive(&frame, Deadline::after(seconds(50))))
      throw Error(ErrorKind::kWorkerLost, "the reader has hung up");
    return decode_message<BetweenReaders>(frame);
  }
  // The next message of this kind; those before it are dropped.
  template <class Message>
  Message hear() {
    while (true) {
      auto message = hear();
      if (auto* found = std::get_if<Message>(&message)) return std::move(*found);
    }
  }
  // Until the reader has dealt with what was said.
  void wait_until_heard() {
    say(Probe{++probes_, ""});
    while (hear<ProbeSeen>().number != probes_) {
    }
  }
  Channel& channel() { return channel_; }

 private:
  Channel channel_;
  uint64_t probes_ = 0;
};

// The reader of the first node, with one worker, and those of the others, which a test plays.
struct FirstOfNodes {
  explicit FirstOfNodes(const Dataset& dataset, const FeedOptions& options = {}, int nodes = 2) {
    auto peers = make_peers(nodes, nodes);
    peers[0].always = true;
    for (size_t i = 1; i < peers.size(); ++i)
      others.emplace_back(std::move(peers[i].connections[0]));
    auto [mine, its] = socket_pair();
    auto client = std::make_shared<FeedClient>(std::move(mine), /*rank=*/0, /*world_size=*/nodes,
                                               std::chrono::seconds(60));
    state = std::make_shared<ShardState>(std::move(client), "train", Position());
    std::vector<UniqueFd> ends;
    ends.push_back(std::move(its));
    reader = std::thread([plan = dataset.plan(), ends = std::move(ends), options,
                          peer = std::move(peers[0])]() mutable {
      serve_feed({{"train", plan}}, std::move(ends), options, std::move(peer));
    });
  }
  ~FirstOfNodes() {
    state.reset();
    for (auto& each : others) ::shutdown(each.channel().fd(), SHUT_RDWR);
    reader.join();
  }

  std::deque<OtherReader> others;
  std::shared_ptr<ShardState> state;
  std::thread reader;
};

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
    options.feed = {.threads = [] { return 2; }, .byte_budget = 1, .read_ahead = 4};
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
  FirstOfNodes first(rows());
  auto walked = std::async(std::launch::async, [&] {
    return error_of([&] {
      for (const auto& batch : DataShard(first.state).iter_batches({.global_batch_size = 30})) {
        EXPECT_GT(batch->num_rows(), 0);
      }
    });
  });
  first.others[0].hear<JoinPass>();
  ::shutdown(first.others[0].channel().fd(), SHUT_RDWR);
  Error error = walked.get();
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(error.what(), HasSubstr("the data reader of host n1 has gone"));
}

// So that each hears of it before whoever ends because of it hangs up.
TEST_F(SplitFeedTest, AFailureIsPassedOn) {
  for (bool has_begun : {false, true}) {
    SCOPED_TRACE(has_begun);
    FirstOfNodes first(rows(), {}, 3);
    auto begin = [&] { return DataShard(first.state).begin_pass({.global_batch_size = 30}); };
    std::shared_ptr<ShardPass> pass;
    if (has_begun) {
      pass = begin();
      first.others[0].hear<JoinPass>();
    }
    first.others[0].say(PassFailed{0, ErrorKind::kUserCode, "row 900 is bad"});
    first.others[0].wait_until_heard();
    if (!has_begun) pass = begin();
    PassFailed failed = first.others[1].hear<PassFailed>();
    EXPECT_EQ(failed.kind, ErrorKind::kUserCode);
    EXPECT_EQ(failed.message, "row 900 is bad");
  }
}

// What another reader must not say. Each is told to a reader that takes part in a pass, and has
// decoded its first window.
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
  cases.push_back({AskRows{0, 0, 0, 0, 2, 12, -1}, "rows 2 to 12, none of which it takes"});
  cases.push_back({RowsSchema{0, "no schema"}, "a schema that cannot be read"});
  cases.push_back({RowsPart{0, 0, true, "no rows"}, "rows without a schema"});
  cases.push_back({RowsPart{5, 0, false, "rows"}, "it answers what nobody here has said"});
  cases.push_back({AskRows{5, 0, 0, 0, 15, 30, -1}, "it answers what nobody here has said"});
  for (auto& each : cases) {
    SCOPED_TRACE(each.why);
    FirstOfNodes first(rows());
    auto walked = std::async(std::launch::async, [&] {
      return error_of([&] {
        for (const auto& batch : DataShard(first.state).iter_batches({.global_batch_size = 30})) {
          EXPECT_GT(batch->num_rows(), 0);
        }
      });
    });
    first.others[0].hear<WindowRows>();
    std::visit([&](const auto& message) { first.others[0].say(message); }, each.message);
    EXPECT_THAT(walked.get().what(), HasSubstr(each.why));
  }
}

// What a reader has received of an answer when a pass ends is no part of an answer in the next, and
// what the other one still says about it is of no concern.
TEST_F(SplitFeedTest, WhatComesAboutAPassThatIsOverIsDropped) {
  FirstOfNodes first(
      read_parquet(folder_.write_rows("even.parquet", 0, 1200, 100)).select_columns({"id"}));
  OtherReader& other = first.others[0];
  std::string schema = schema_to_bytes(*arrow::schema({arrow::field("id", arrow::int64())}));
  auto pass = DataShard(first.state).begin_pass({.global_batch_size = 30});
  other.hear<JoinPass>();
  other.say(WindowRows{0, 1, 100, 1000});
  AskRows asked = other.hear<AskRows>();
  RowsPart half{0, asked.request, false, "half of an answer"};
  other.say(RowsSchema{0, schema}, half);
  other.wait_until_heard();
  pass.reset();
  other.hear<LeavePass>();
  other.say(LeavePass{0}, half, half);

  auto walked = std::async(std::launch::async, [&] {
    Steps steps;
    for (const auto& batch : DataShard(first.state).iter_batches({.global_batch_size = 30})) {
      steps.push_back(ints(*batch, "id"));
      if (steps.size() == 5) break;
    }
    return steps;
  });
  OpenPass open = other.hear<JoinPass>().open;
  EXPECT_EQ(open.pass, 1);
  other.say(half, WindowRows{1, 1, 100, 1000}, half);
  asked = other.hear<AskRows>();
  EXPECT_EQ(asked.window, 1);
  NodeRows own({open.global_batch, open.smallest_rest, 2, open.drop_last}, 0, {0});
  arrow::Int64Builder ids;
  for (const Rows& range : own.in(asked.begin, asked.end, asked.total)) {
    for (int64_t i = 0; i < range.rows; ++i) check(ids.Append(range.first_row + i), "ids");
  }
  auto column = check(ids.Finish(), "ids");
  auto rows = arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                       column->length(), {column});
  std::string bytes = rows_to_bytes({rows});
  other.say(RowsSchema{1, schema}, RowsPart{1, asked.request, false, bytes.substr(0, 10)},
            RowsPart{1, asked.request, true, bytes.substr(10)});
  Steps expected;
  for (int64_t step = 0; step < 5; ++step) {
    auto& ids_of_step = expected.emplace_back(15);
    std::iota(ids_of_step.begin(), ids_of_step.end(), 30 * step);
  }
  EXPECT_EQ(walked.get(), expected);
  other.hear<LeavePass>();
  other.say(half, LeavePass{1});
  other.wait_until_heard();
}

// Answers that wait for the connection are not sent to one who has left meanwhile.
TEST_F(SplitFeedTest, WhoHasLeftIsSentNoMoreRows) {
  FirstOfNodes first(read_parquet(folder_.write_rows("large.parquet", 0, 800'000, 400'000)));
  OtherReader& other = first.others[0];
  auto pass = DataShard(first.state).begin_pass({.global_batch_size = 200'000});
  EXPECT_EQ(other.hear<WindowRows>().window, 0);
  // Each has more bytes than the socket takes.
  other.say(AskRows{0, 0, 0, 0, 100'000, 140'000, -1}, AskRows{0, 1, 0, 0, 140'000, 180'000, -1},
            AskRows{0, 2, 0, 0, 300'000, 340'000, -1}, LeavePass{0}, Probe{100, ""});
  std::vector<uint64_t> answered;
  for (uint64_t probe : {100, 101, 102}) {
    if (probe > 100) other.say(Probe{probe, ""});
    for (uint64_t seen = 0; seen != probe;) {
      auto message = other.hear();
      if (auto* part = std::get_if<RowsPart>(&message)) answered.push_back(part->request);
      if (auto* each = std::get_if<ProbeSeen>(&message)) seen = each->number;
    }
  }
  EXPECT_THAT(answered, ElementsAre(0));
  pass.reset();
}

// A reader that nobody asks for rows keeps what its budget allows, and one window.
TEST_F(SplitFeedTest, ASlowHostLimitsWhatOthersDecode) {
  Dataset dataset = read_parquet(folder_.write_rows("even.parquet", 0, 4000, 100));
  // A window has about 2,500 bytes.
  FirstOfNodes first(dataset, {.read_ahead = 20'000});
  auto pass = DataShard(first.state).begin_pass({.global_batch_size = 30});
  int counted = 0;
  Frame frame;
  for (bool is_quiet = false; !is_quiet;) {
    // Quiet is only who has said something.
    auto patience =
        counted < 2 ? std::chrono::milliseconds(50'000) : std::chrono::milliseconds(500);
    try {
      ASSERT_TRUE(first.others[0].channel().receive(&frame, Deadline::after(patience)));
      auto message = decode_message<BetweenReaders>(frame);
      counted += std::holds_alternative<WindowRows>(message);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kTimeout);
      is_quiet = true;
    }
  }
  EXPECT_GE(counted, 2);
  EXPECT_LE(counted, 8);  // of 20
  pass.reset();
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

TEST_F(SplitFeedTest, TheFirstHostDecidesByWhatItMeasures) {
  struct Case {
    MeasuredReading measured;
    const char* told;
  };
  for (const auto& each :
       {Case{{20, 1, 0.001, 100'000}, "each of 2 hosts reads all of it: a window takes"},
        Case{{20, 1, 0.05, 100'000}, "its windows are split between 2 hosts: a window takes"},
        Case{{1, 1, 0.05, 1000}, "there are fewer windows (1) than hosts (2)"}}) {
    std::vector<std::string> told;
    Walk options{.options = {.global_batch_size = 50}, .epochs = 2};
    auto alone = walk(rows(), 1, options);
    options.hosts = 2;
    options.always_split = false;
    options.feed.keep_decoded = 0;
    options.tell = [&](const std::string& text) { told.push_back(text); };
    options.measure = [&](const auto&, const Position&) { return each.measured; };
    options.bytes_per_second = 100e6;
    EXPECT_EQ(walk(rows(), 2, options).steps, alone.steps);
    EXPECT_THAT(told, ElementsAre(HasSubstr(each.told)));
  }
}

TEST_F(SplitFeedTest, WhatIsDecodedOnceIsReadByEachHost) {
  struct Case {
    Dataset dataset;
    const char* told;
  };
  const Dataset all = rows();
  const char* decoded_once = "epochs after the first read nothing";
  for (const auto& each : {Case{all.filter(col("id") != 5), decoded_once},
                           Case{all.window_shuffle({.rows = 200, .seed = 1}), decoded_once},
                           Case{all.map_batches(without_change), "a window takes"}}) {
    std::vector<std::string> told;
    Walk options{.options = {.global_batch_size = 50}, .epochs = 2};
    auto alone = walk(each.dataset, 1, options);
    options.hosts = 2;
    options.always_split = false;
    options.tell = [&](const std::string& text) { told.push_back(text); };
    options.bytes_per_second = 100e6;
    EXPECT_EQ(walk(each.dataset, 2, options).steps, alone.steps);
    EXPECT_THAT(told, ElementsAre(HasSubstr(each.told)));
  }
}

// Whatever it finds out on this machine.
TEST_F(SplitFeedTest, TheFirstHostMeasures) {
  std::vector<std::string> told;
  Walk options{.options = {.global_batch_size = 50}, .epochs = 2};
  auto alone = walk(rows(), 1, options);
  options.hosts = 2;
  options.always_split = false;
  options.feed.keep_decoded = 0;
  options.tell = [&](const std::string& text) { told.push_back(text); };
  EXPECT_EQ(walk(rows(), 2, options).steps, alone.steps);
  EXPECT_THAT(
      told, ElementsAre(testing::AnyOf(HasSubstr("a window takes"), HasSubstr("did not answer"))));
}

TEST_F(SplitFeedTest, TheRestOfAnEpochDecidesForItselfOnly) {
  Walk options{.options = {.global_batch_size = 50}};
  auto whole = walk(rows(), 1, options);
  options.from = whole.positions[whole.positions.size() - 2];
  options.epochs = 3;
  ASSERT_GT(options.from.window, 0);
  auto alone = walk(rows(), 1, options);
  std::vector<std::string> told;
  options.hosts = 2;
  options.always_split = false;
  options.feed.keep_decoded = 0;
  options.tell = [&](const std::string& text) { told.push_back(text); };
  options.measure = [](const auto&, const Position& from) {
    return MeasuredReading{from.window > 0 ? 1 : 20, 1, 0.05, 1000};
  };
  options.bytes_per_second = 100e6;
  EXPECT_EQ(walk(rows(), 2, options).steps, alone.steps);
  EXPECT_THAT(told, ElementsAre(HasSubstr("fewer windows (1)"), HasSubstr("are split between")));
}

}  // namespace
}  // namespace manta::data
