#include <gmock/gmock.h>

#include <future>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/core/node_memory_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/train/reader_mesh_internal.h"

namespace manta::train {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

using Connections = std::vector<std::unique_ptr<Transport>>;

class ReaderMeshTest : public testing::Test {
 protected:
  ReaderPeers place(int node) const {
    ReaderPeers peers;
    peers.node_rank = node;
    peers.address = "127.0.0.1";
    peers.hosts = {"n0", "n1", "n2"};
    return peers;
  }
  std::unique_ptr<ReaderMesh> listen(int node) {
    auto mesh = std::make_unique<ReaderMesh>(place(node), token_, 4);
    addresses_.push_back(str("127.0.0.1:", mesh->port()));
    return mesh;
  }
  uint16_t port_of(size_t node) const { return parse_address(addresses_[node]).port; }
  std::future<Connections> connect(ReaderMesh& mesh, seconds time = seconds(20)) {
    return std::async(std::launch::async, [this, &mesh, time] {
      return mesh.connect(addresses_, Deadline::after(time));
    });
  }

  const std::string token_ = random_token();
  std::vector<std::string> addresses_;
};

TEST_F(ReaderMeshTest, ConnectsEachTwo) {
  auto first = listen(0), second = listen(1), third = listen(2);
  auto a = connect(*first), b = connect(*second), c = connect(*third);
  std::vector<Connections> nodes;
  for (auto* each : {&a, &b, &c}) nodes.push_back(each->get());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(nodes[i][i]);
    for (size_t j = 0; j < i; ++j) {
      Channel one(std::move(nodes[i][j])), other(std::move(nodes[j][i]));
      one.send([](OutBuffer& out) { out.push(7, "hello"); });
      Frame frame;
      ASSERT_TRUE(other.receive(&frame, Deadline::after(seconds(20))));
      EXPECT_EQ(frame.body, "hello");
    }
  }
  // Nothing listens any more.
  EXPECT_THROW(connect_tcp("127.0.0.1", port_of(0), Deadline::after(seconds(5))), Error);
}

TEST_F(ReaderMeshTest, AReaderThatDoesNotComeIsNamed) {
  auto first = listen(0), second = listen(1), third = listen(2);
  auto a = connect(*first, seconds(1)), b = connect(*second, seconds(1));
  Error error = error_of([&] { a.get(); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("the data readers of n2 did not connect to that of n0"));
  EXPECT_THROW(b.get(), Error);
}

TEST_F(ReaderMeshTest, AReaderThatDoesNotListenIsNamed) {
  auto first = listen(0), second = listen(1);
  addresses_.push_back("127.0.0.1:1");
  first.reset();
  Error error = error_of([&] { second->connect(addresses_, Deadline::after(seconds(5))); });
  EXPECT_THAT(error.what(), HasSubstr("the data reader of n1 cannot connect to that of n0 at 127"));
}

// A process with the group's key that is not one of the missing readers.
TEST_F(ReaderMeshTest, OnlyReadersThatAreMissingAreTaken) {
  auto first = listen(0), second = listen(1), third = listen(2);
  auto a = connect(*first);
  auto refused = [&](const std::string& key, const ReaderHello& hello) {
    try {
      auto transport =
          connect_tls(TlsKey(key), "127.0.0.1", port_of(0), Deadline::after(seconds(20)));
      Channel channel(std::move(transport));
      channel.send([&](OutBuffer& out) { encode_message<AtMesh>(out, hello); });
      Frame frame;
      return !channel.receive(&frame, Deadline::after(seconds(20)));
    } catch (const Error& error) {
      return error.kind() != ErrorKind::kTimeout;
    }
  };
  EXPECT_TRUE(refused(token_, {token_, 3, 1}));          // another attempt
  EXPECT_TRUE(refused(token_, {token_, 4, 0}));          // its own place
  EXPECT_TRUE(refused(token_, {token_, 4, 3}));          // no place at all
  EXPECT_TRUE(refused(token_, {random_token(), 4, 1}));  // not the token
  EXPECT_TRUE(refused(random_token(), {token_, 4, 1}));  // not the key
  auto b = connect(*second), c = connect(*third);
  for (auto* each : {&a, &b, &c}) EXPECT_EQ(each->get().size(), 3u);
}

}  // namespace
}  // namespace manta::train
