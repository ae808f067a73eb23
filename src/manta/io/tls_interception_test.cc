#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "manta/io/tcp_proxy_internal.h"
#include "manta/io/tls_listener_fixture_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

class TlsInterceptionTest : public TlsListenerTest {};

TEST_F(TlsInterceptionTest, WhatWasRecordedCannotBeReplayed) {
  listen();
  TcpProxy proxy(port_, [](std::string bytes) { return std::pair(bytes, true); });
  {
    auto channel = join("original", proxy.port());
    expect_echo(*channel, "secret words");
  }
  EXPECT_EQ(end_of_member(), "");
  const std::string& recorded = proxy.recorded();
  EXPECT_GT(recorded.size(), 300u);
  EXPECT_THAT(recorded, testing::Not(HasSubstr("original")));
  EXPECT_THAT(recorded, testing::Not(HasSubstr("secret words")));
  EXPECT_THAT(recorded, testing::Not(HasSubstr(kTestToken)));
  for (int i = 0; i < 3; ++i) {
    UniqueFd replay = stranger();
    ASSERT_EQ(::send(replay.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(recorded.size()));
    EXPECT_TRUE(is_let_go(replay.get()));
  }
  EXPECT_EQ(locked([&] { return members_.size(); }), 1u);
  EXPECT_EQ(frames_, 1);
}

TEST_F(TlsInterceptionTest, AChangedBitIsSeen) {
  listen();
  std::atomic<bool> change = false;
  TcpProxy proxy(port_, [&](std::string bytes) {
    if (change) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return std::pair(bytes, true);
  });
  auto channel = join("one", proxy.port());
  expect_echo(*channel, "unchanged");
  change = true;
  ASSERT_TRUE(channel->send([](OutBuffer& out) { out.push(3, "changed"); }));
  EXPECT_THAT(end_of_member(), HasSubstr("the encrypted connection with 127.0.0.1"));
  EXPECT_EQ(frames_, 1);
}

// A connection that ends without TLS's own goodbye, at different places.
TEST_F(TlsInterceptionTest, WhatIsCutOffIsCorruptExceptBetweenFrames) {
  struct Case {
    const char* name;
    std::string sent;
    size_t kept;  // how many bytes of its record arrive
    const char* why;
  };
  const std::string whole("MNT1\3\0\0\0\3\0\0\0abc", 15);
  for (const auto& [name, sent, kept, why] :
       {Case{"between frames", whole, SIZE_MAX, ""},
        Case{"in a frame", whole.substr(0, 14), SIZE_MAX, "in the middle of a frame"},
        Case{"in the header of a record", whole, 3, "in the middle of a record"},
        Case{"after the header of a record", whole, 5, "in the middle of a record"},
        Case{"in a record", whole, 20, "in the middle of a record"}}) {
    SCOPED_TRACE(name);
    locked([&] { ends_.clear(); });
    listen();
    std::atomic<bool> last = false;
    TcpProxy proxy(port_, [&, kept = kept](std::string bytes) {
      return last ? std::pair(bytes.substr(0, kept), false) : std::pair(bytes, true);
    });
    auto transport = connect_tls(TlsKey(kTestToken), "127.0.0.1", proxy.port(), patiently());
    OutBuffer hello;
    hello.push(kHello, name);
    ASSERT_EQ(hello.flush(*transport), IoStatus::kDone);
    ASSERT_TRUE(eventually([&] { return locked([&] { return hellos_.contains(name); }); }));
    last = true;
    ASSERT_EQ(transport->write(sent, {}).status, IoStatus::kDone);
    std::string end = end_of_member();
    EXPECT_THAT(end, HasSubstr(why));
    EXPECT_EQ(end.empty(), *why == '\0');
  }
}

}  // namespace
}  // namespace manta
