#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/tls_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

TEST(TlsTest, FramesTravelBothWays) {
  TlsKey key("0123456789abcdef0123456789abcdef");
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  auto accepted = std::async(std::launch::async, [&] {
    while (true) {
      UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (socket) return accept_tls(key, std::move(socket), Deadline::after(30s));
      std::this_thread::sleep_for(1ms);
    }
  });
  Channel client(
      connect_tls(key, "127.0.0.1", local_address(listener.get()).port, Deadline::after(30s)));
  Channel server(accepted.get());
  for (size_t size : {0u, 1u, 1000u, 300000u, 3000000u, 20000000u}) {
    std::string body(size, 'x');
    std::thread sender([&] { client.send([&](OutBuffer& out) { out.push(7, body); }); });
    Frame frame;
    EXPECT_TRUE(server.receive(&frame, Deadline::after(30s)));
    EXPECT_TRUE(frame.body == body);
    sender.join();
  }
}

}  // namespace
}  // namespace manta
