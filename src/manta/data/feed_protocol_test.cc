// The reader and a worker when the other side does not do its part: neither waits to send.

#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/data/feed_fixture_internal.h"
#include "manta/io/shared_region_internal.h"

namespace manta::data {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// A side that waits to send gives up after a minute. This deadline is shorter, and far longer than
// needed.
constexpr seconds kDeadline{40};

template <class Variant, class Message>
bool send(Channel& channel, const Message& message) {
  return channel.send([&](OutBuffer& out) { encode_message<Variant>(out, message); });
}

template <class Variant>
Variant receive(Channel& channel) {
  Frame frame;
  if (!channel.receive(&frame, Deadline::after(kDeadline))) {
    throw Error(ErrorKind::kWorkerLost, "the other side has gone");
  }
  return decode_message<Variant>(frame);
}

TEST(FeedReaderTest, ReadsOnWhileAWorkerTakesNothing) {
  constexpr uint64_t kPasses = 20'000;  // more messages than a socket holds
  auto [mine, other] = socket_pair();
  std::vector<UniqueFd> ends;
  ends.push_back(std::move(other));
  std::thread reader([&] { serve_feed({}, std::move(ends), {}); });
  auto channel = std::make_unique<Channel>(std::move(mine));
  auto sent = std::async(std::launch::async, [&] {
    OpenPass open;
    open.dataset = "unknown";
    for (; open.pass < kPasses; ++open.pass) {
      if (!send<ToReader>(*channel, open)) return false;
    }
    return true;
  });
  EXPECT_EQ(sent.wait_for(kDeadline), std::future_status::ready) << "the reader does not read";
  // Every answer is there, in order.
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    auto message = receive<FromReader>(*channel);
    auto* failed = std::get_if<PassFailed>(&message);
    ASSERT_TRUE(failed);
    ASSERT_EQ(failed->pass, pass);
  }
  EXPECT_TRUE(sent.get());
  channel.reset();
  reader.join();
}

rlimit files_allowed{};
std::atomic<bool> leaves_one_file = false;

// From here on the process may open one more file: the memory of a block, but not the worker's
// descriptor of it.
std::shared_ptr<arrow::RecordBatch> leave_one_file(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  if (!leaves_one_file.exchange(false)) return batch;
  UniqueFd first(::dup(0)), second(::dup(0));
  rlimit limit = files_allowed;
  limit.rlim_cur = static_cast<rlim_t>(second.get());
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return batch;
}

TEST(FeedReaderTest, ABlockThatCannotBeSentGivesItsMemoryBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan needs a descriptor to look at an object's type";
#endif
  ParquetFolder folder;
  auto dataset =
      read_parquet(folder.write_rows("a.parquet", 0, 10, 10)).map_batches(leave_one_file);
  dataset.count();
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files_allowed), 0);
  leaves_one_file = true;
  auto [mine, other] = socket_pair();
  std::vector<UniqueFd> ends;
  ends.push_back(std::move(other));
  // The budget has room for one block. More would be sent only if the worker wanted rows.
  std::thread reader([&] {
    serve_feed({{"train", dataset.plan()}}, std::move(ends), {.byte_budget = 256 << 10});
  });
  auto channel = std::make_unique<Channel>(std::move(mine));
  OpenPass open;
  open.dataset = "train";
  EXPECT_TRUE(send<ToReader>(*channel, open));
  auto message = receive<FromReader>(*channel);
  while (std::holds_alternative<PassSchema>(message)) message = receive<FromReader>(*channel);
  ::setrlimit(RLIMIT_NOFILE, &files_allowed);
  EXPECT_TRUE(std::holds_alternative<PassFailed>(message));
  open.pass = 1;
  EXPECT_TRUE(send<ToReader>(*channel, open));
  EXPECT_TRUE(std::holds_alternative<PassSchema>(receive<FromReader>(*channel)));
  EXPECT_TRUE(std::holds_alternative<NewSegment>(receive<FromReader>(*channel)));
  EXPECT_TRUE(std::holds_alternative<NewBlock>(receive<FromReader>(*channel)));
  channel.reset();
  reader.join();
}

// A reader that sends the messages of a test.
class FakeReader {
 public:
  FakeReader() {
    auto [mine, other] = socket_pair();
    channel = std::make_unique<Channel>(std::move(other));
    client = std::make_shared<FeedClient>(std::move(mine), 0, 1, kDeadline);
    arrow::Int64Builder values;
    check(values.AppendValues({1, 2, 3, 4}), "values");
    batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}), 4,
                                     {check(values.Finish(), "values")});
    check(arrow::ipc::GetRecordBatchSize(*batch, &size), "size");
    region = SharedRegion::create("manta-test", 4096);
    auto buffer = std::make_shared<arrow::MutableBuffer>(region.data(), size);
    arrow::io::FixedSizeBufferWriter writer(buffer);
    int32_t metadata = 0;
    int64_t body = 0;
    check(arrow::ipc::WriteRecordBatch(*batch, 0, &writer, &metadata, &body,
                                       arrow::ipc::IpcWriteOptions::Defaults()),
          "writing");
  }

  void send_segment() { say(NewSegment{0, region.size(), SharedFd(region.duplicate())}); }
  void send_schema(uint64_t pass = 0) {
    auto schema = check(arrow::ipc::SerializeSchema(*batch->schema()), "schema");
    say(PassSchema{pass, schema->ToString()});
  }
  NewBlock block(uint64_t number) const {
    auto row = static_cast<int64_t>(4 * number);
    return {0, number, 0, static_cast<uint64_t>(size), row, 4, {{row, 0, 0}}};
  }
  template <class Message>
  void say(const Message& message) {
    EXPECT_TRUE(send<FromReader>(*channel, message));
  }

  std::unique_ptr<Channel> channel;
  std::shared_ptr<FeedClient> client;
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t size = 0;
  SharedRegion region;
};

TEST(FeedClientTest, LetsGoOfBlocksWhileTheReaderTakesNothing) {
  constexpr uint64_t kBlocks = 20'000;  // more messages than a socket holds
  FakeReader reader;
  auto taken = std::async(std::launch::async, [client = std::move(reader.client)] {
    FeedClient::Pass pass(client, {});
    uint64_t blocks = 0;
    while (auto block = pass.next(INT64_MAX)) {
      EXPECT_EQ(ints(*block->batch, "id"), (std::vector<int64_t>{1, 2, 3, 4}));
      ++blocks;
    }
    return blocks;
  });
  reader.send_segment();
  reader.send_schema();
  for (uint64_t i = 0; i < kBlocks; ++i) reader.say(reader.block(i));
  reader.say(EndOfPass{0, 4 * kBlocks, 0});
  EXPECT_EQ(taken.wait_for(kDeadline), std::future_status::ready) << "the worker waits to send";
  // All its messages arrive, in order, though its client has gone.
  std::vector<uint64_t> released;
  size_t others = 0;
  while (true) {
    Frame frame;
    if (!reader.channel->receive(&frame, Deadline::after(kDeadline))) break;
    auto message = decode_message<ToReader>(frame);
    if (auto* release = std::get_if<ReleaseBlock>(&message)) {
      released.push_back(release->block);
    } else {
      ++others;
    }
    if (std::holds_alternative<ClosePass>(message)) break;
  }
  EXPECT_EQ(taken.get(), kBlocks);
  ASSERT_EQ(released.size(), kBlocks);
  EXPECT_TRUE(std::is_sorted(released.begin(), released.end()));
  EXPECT_EQ(others, 3);  // open, want, close
}

// If no thread can be started to send when the reader takes more, the worker sends while it waits
// for an answer.
TEST(FeedClientTest, SendsWithoutAThreadWhileItWaits) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than this leaves";
#endif
  constexpr uint64_t kPasses = 100'000;  // far more messages than a socket holds
  auto [mine, other] = socket_pair();
  auto client = std::make_shared<FeedClient>(std::move(mine), 0, 1, seconds(10));
  std::promise<void> begin;
  std::thread reader([&, channel = std::make_unique<Channel>(std::move(other))] {
    begin.get_future().wait();
    while (true) {
      auto message = receive<ToReader>(*channel);
      auto* want = std::get_if<WantRows>(&message);
      if (!want) continue;
      send<FromReader>(*channel, EndOfPass{want->pass, 0, 0});
      return;
    }
  });
  pthread_attr_t usual, large;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&large), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&large, size_t{1} << 48), 0);  // more than can be mapped
  ASSERT_EQ(::pthread_setattr_default_np(&large), 0);
  for (uint64_t i = 0; i < kPasses; ++i) FeedClient::Pass(client, {});
  FeedClient::Pass pass(client, {});
  begin.set_value();
  EXPECT_FALSE(pass.next(1));
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  reader.join();
}

TEST(FeedClientTest, NonsenseFromTheReaderIsAnError) {
  using Case = std::pair<std::function<void(FakeReader&)>, const char*>;
  const Case cases[] = {
      {[](FakeReader& r) { r.say(r.block(0)); }, "segment 0, which it has not announced"},
      {[](FakeReader& r) {
         r.send_segment();
         NewBlock block = r.block(0);
         block.size = 5000;
         r.say(block);
       },
       "of 5000 bytes in segment 0, which is smaller"},
      {[](FakeReader& r) {
         r.send_segment();
         r.say(r.block(0));
       },
       "block 0 before its schema"},
      {[](FakeReader& r) { r.send_schema(7); }, "something about pass 7, which was not opened"},
      {[](FakeReader& r) {
         r.say(EndOfPass{1, 0, 0});
       },
       "pass 1, which was not opened"},
      {[](FakeReader& r) {
         r.say(EndOfPass{0, 7, 0});
       },
       "the end of pass 0 behind row 7, where row 0 comes next"},
      {[](FakeReader& r) {
         r.say(PassFailed{9, ErrorKind::kIo, "x"});
       },
       "pass 9"},
      {[](FakeReader& r) {
         r.send_segment();
         r.send_schema();
         r.say(r.block(3));
       },
       "from row 12 on, where row 0 comes next"},
      {[](FakeReader& r) {
         r.send_segment();
         r.send_schema();
         NewBlock block = r.block(0);
         block.windows.clear();
         r.say(block);
       },
       "4 rows in 0 windows"},
      {[](FakeReader& r) {
         r.send_segment();
         r.send_schema();
         NewBlock block = r.block(0);
         block.rows = 5;
         r.say(block);
       },
       "as 5 rows, but it has 4"},
      {[](FakeReader& r) {
         NewBlock block = r.block(0);
         block.size = 0;
         r.say(block);
       },
       "as 4 rows, but it has 0"},
      {[](FakeReader& r) {
         r.say(PassRanks{0, {0, 3}});
       },
       "rank 3, where there are"},
  };
  for (const auto& [say, why] : cases) {
    FakeReader reader;
    FeedClient::Pass pass(reader.client, {});
    say(reader);
    EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { pass.next(1); }),
                testing::AllOf(HasSubstr("the data reader sent"), HasSubstr(why)));
  }
}

}  // namespace
}  // namespace manta::data
