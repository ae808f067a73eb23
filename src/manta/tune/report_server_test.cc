#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/queue_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/file_internal.h"
#include "manta/tune/report_server_internal.h"

namespace manta::tune {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A server, and connections as a trial of a node makes them. `host` is the address of a cluster's
/// driver.
class ReportServerTest : public testing::Test {
 protected:
  void serve(const std::string& host) {
    train::DriverEntry entry = train::make_driver_entry("tune", folder_.path());
    entry.host = host;
    server_ =
        std::make_unique<ReportServer>(entry, [this](uint64_t trial, int, SendTrialReport& report) {
          reports_.push({trial, report.index});
          return SendVerdict{report.index, false, "heard"};
        });
    fs::create_directories(folder_ / "checkpoint");
    std::ofstream(folder_ / "checkpoint/file") << "content";
    std::ofstream(folder_ / "checkpoint/other") << "of somebody else";
    expect(0);
  }
  void expect(int attempt) {
    server_->expect(3, attempt, {folder_ / "trial", folder_ / "checkpoint", {"file"}});
  }
  JoinExperiment right(NodeId node, int attempt = 0) const {
    return {server_->entry().token, 3, attempt, node};
  }
  std::unique_ptr<Channel> join(const JoinExperiment& message) {
    auto channel = train::connect_to_driver(server_->entry(), message.node);
    send(*channel, message);
    return channel;
  }
  template <class Message>
  static void send(Channel& channel, const Message& message) {
    channel.send([&](OutBuffer& out) { encode_message<FromTrial>(out, message); });
  }
  // Nothing if the connection is closed.
  static std::optional<ToTrial> receive(Channel& channel) {
    Frame frame;
    try {
      if (!channel.receive(&frame, Deadline::after(30s))) return std::nullopt;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kTimeout) throw;
      return std::nullopt;
    }
    return decode_message<ToTrial>(frame);
  }
  static bool is_refused(Channel& channel) {
    send(channel, SendTrialReport{0, {}, false, {}});
    return !receive(channel);
  }
  template <class Message>
  static std::optional<Message> receive_as(Channel& channel) {
    auto message = receive(channel);
    auto* expected = message ? std::get_if<Message>(&*message) : nullptr;
    return expected ? std::optional(*expected) : std::nullopt;
  }
  std::string staged(int attempt) const {
    return folder_ / str("trial/.staging/attempt-", attempt, "/report-5/rank-0/file");
  }

  TemporaryFolder folder_;
  Queue<std::pair<uint64_t, int64_t>> reports_;
  std::unique_ptr<ReportServer> server_;
};

TEST_F(ReportServerTest, OnOneMachineNothingListensOnTheNetwork) {
  serve("");
  EXPECT_FALSE(server_->has_other_nodes());
  EXPECT_EQ(server_->entry().port, 0);
  EXPECT_FALSE(fs::exists(folder_ / ".staging"));
  auto channel = join(right(0));
  send(*channel, SendTrialReport{5, {}, false, {}});
  auto verdict = receive_as<SendVerdict>(*channel);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->error, "heard");
  EXPECT_EQ(reports_.pop(Deadline::after(0s)), std::pair(uint64_t{3}, int64_t{5}));
}

TEST_F(ReportServerTest, ATrialOfAnotherNodeReportsOverTls) {
  serve("127.0.0.1");
  EXPECT_NE(server_->entry().port, 0);
  EXPECT_TRUE(train::sees_folder(server_->entry()));
  auto channel = join(right(2));
  send(*channel, SendTrialReport{5, {}, false, {}});
  EXPECT_TRUE(receive_as<SendVerdict>(*channel));
  server_.reset();
  EXPECT_FALSE(receive(*channel)) << "it is closed";
  EXPECT_FALSE(fs::exists(folder_ / ".staging")) << "the mark is gone";
}

// The folder of an experiment may come from anywhere.
TEST_F(ReportServerTest, ALinkInThePlaceOfTheMarksFolderIsNotFollowed) {
  fs::create_directories(folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", folder_ / ".staging");
  serve("127.0.0.1");
  EXPECT_TRUE(train::sees_folder(server_->entry()));
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));
}

TEST_F(ReportServerTest, AnUnexpectedPeerIsRefused) {
  serve("127.0.0.1");
  auto wrong_token = right(2);
  wrong_token.token += "x";
  auto other_trial = right(2);
  other_trial.trial = 4;
  for (const JoinExperiment& message : {wrong_token, other_trial, right(2, /*attempt=*/1)})
    EXPECT_TRUE(is_refused(*join(message)));
  // Over the network, but as if it were on the driver's node; and the other way round.
  auto over_tls = train::connect_to_driver(server_->entry(), 2);
  send(*over_tls, right(0));
  EXPECT_TRUE(is_refused(*over_tls));
  auto local = train::connect_to_driver(server_->entry(), 0);
  send(*local, right(2));
  EXPECT_TRUE(is_refused(*local));
  // Without the key there is no connection.
  auto stranger = server_->entry();
  stranger.token += "x";
  EXPECT_THROW(train::connect_to_driver(stranger, 2), Error);
  auto channel = join(right(2));
  send(*channel, SendTrialReport{5, {}, false, {}});
  EXPECT_TRUE(receive_as<SendVerdict>(*channel));
  EXPECT_TRUE(is_refused(*join(right(2)))) << "each attempt once";
}

TEST_F(ReportServerTest, FilesGoToTheStagingFolderOfTheTrial) {
  serve("127.0.0.1");
  auto channel = join(right(2));
  send(*channel, train::SendChunk{5, "file", 0, "first, "});
  send(*channel, train::SendChunk{5, "file", 7, "second"});
  EXPECT_TRUE(receive_as<train::ChunkTaken>(*channel));
  EXPECT_TRUE(receive_as<train::ChunkTaken>(*channel));
  EXPECT_EQ(train::read_text(staged(0)), "first, second");
  // If a file cannot be written, the trial is told, and may go on.
  send(*channel, train::SendChunk{5, "../file", 0, "elsewhere"});
  auto failed = receive_as<FilesFailed>(*channel);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(failed->message, HasSubstr("../file"));
  send(*channel, SendTrialReport{5, {}, false, {}});
  EXPECT_TRUE(receive_as<SendVerdict>(*channel));
}

TEST_F(ReportServerTest, OnlyFilesOfItsCheckpointAreSent) {
  serve("127.0.0.1");
  auto channel = join(right(2));
  send(*channel, train::WantChunk{"file", 0});
  auto chunk = receive_as<train::FileChunk>(*channel);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->bytes, "content");
  EXPECT_TRUE(chunk->last);
  fs::remove(folder_ / "checkpoint/file");
  send(*channel, train::WantChunk{"file", 0});
  EXPECT_TRUE(receive_as<FilesFailed>(*channel));
  send(*channel, train::WantChunk{"other", 0});
  EXPECT_FALSE(receive(*channel)) << "it is closed";
}

// The next attempt removes the files of the attempt before.
TEST_F(ReportServerTest, AnAttemptThatHasEndedWritesNothingMore) {
  serve("127.0.0.1");
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto channel = join(right(2, attempt));
    channel->send([](OutBuffer& out) {  // more than are written until one is answered
      for (uint64_t part = 0; part < 1000; ++part)
        encode_message<FromTrial>(out, train::SendChunk{5, "file", part, "x"});
    });
    EXPECT_TRUE(receive_as<train::ChunkTaken>(*channel));
    server_->forget(3, attempt);
    fs::remove_all(folder_ / "trial");
    expect(attempt + 1);
  }
  auto channel = join(right(2, 20));
  send(*channel, train::SendChunk{5, "file", 0, "all"});
  EXPECT_TRUE(receive_as<train::ChunkTaken>(*channel));  // after all others
  EXPECT_EQ(train::read_text(staged(20)), "all");
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder_ / "trial/.staging"), fs::directory_iterator()),
      1);
}

}  // namespace
}  // namespace manta::tune
