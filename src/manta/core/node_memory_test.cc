#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "manta/base/eventually_internal.h"
#include "manta/base/names_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/node_memory_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/core/patience_internal.h"
#include "manta/io/tcp_proxy_internal.h"
#include "manta/io/tls_listener_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::shared_ptr<SharedMemory> pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 2654435761u >> 24);
  SharedMemoryWriter writer;
  writer.write(text.data(), text.size());
  return std::move(writer).finish();
}

std::string text_of(const SharedMemory& memory) {
  return {reinterpret_cast<const char*>(memory.data()), memory.size()};
}

// A node that serves its memory on the loopback interface.
class NodeMemoryTest : public testing::Test {
 protected:
  explicit NodeMemoryTest(bool encrypt = true) : mover_(key_, 2, encrypt) {
    auto serve = [this](const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
      mover_.serve(*memory_, channel, frame);
    };
    std::lock_guard lock(loop_.mutex);
    listener_ = std::make_unique<TlsListener>(loop_, key_, listen_tcp("127.0.0.1", 0), serve);
    thread_ = std::thread([this] { loop_.context.run(); });
  }
  ~NodeMemoryTest() override {
    loop_.post([this] { listener_.reset(); });
    loop_.post([this] { loop_.context.stop(); });
    thread_.join();
  }

  std::pair<std::shared_ptr<SharedMemory>, std::string> fetch(MemoryMover& mover, uint64_t number,
                                                              uint64_t size, uint16_t port = 0) {
    std::string address = port == 0 ? listener_->address().text() : str("127.0.0.1:", port);
    std::promise<std::pair<std::shared_ptr<SharedMemory>, std::string>> result;
    auto future = result.get_future();
    mover.fetch(address, number, size,
                [&](std::shared_ptr<SharedMemory> memory, const std::string& why) {
                  result.set_value({std::move(memory), why});
                });
    return future.wait_for(kPatience) == std::future_status::ready
               ? future.get()
               : std::pair<std::shared_ptr<SharedMemory>, std::string>{nullptr, "nothing came"};
  }

  const TlsKey key_{"a token of at least 16 bytes"};
  MemoryMover mover_;
  std::shared_ptr<NodeMemory> memory_ = std::make_shared<NodeMemory>(3);
  EventLoop loop_;
  std::unique_ptr<TlsListener> listener_;
  std::thread thread_;
};

TEST_F(NodeMemoryTest, NumbersAreThoseOfTheNode) {
  uint64_t first = memory_->keep(pattern(10)), second = memory_->keep(pattern(10));
  EXPECT_EQ(first >> 40, 3u);
  EXPECT_NE(first, second);
  EXPECT_TRUE(memory_->find(first));
  memory_->drop(first);
  EXPECT_FALSE(memory_->find(first));
  EXPECT_TRUE(memory_->find(second));
}

TEST_F(NodeMemoryTest, BytesArriveAsTheyAre) {
  MemoryMover mover(key_, 2);
  for (size_t size : {size_t{1}, size_t{1} << 20, (size_t{1} << 20) + 1, size_t{20} << 20}) {
    auto original = pattern(size);
    auto [copy, why] = fetch(mover, memory_->keep(original), size);
    ASSERT_TRUE(copy) << why;
    ASSERT_EQ(copy->size(), size);
    EXPECT_EQ(std::memcmp(copy->data(), original->data(), size), 0);
  }
}

TEST_F(NodeMemoryTest, WhatIsNotThereIsAnError) {
  MemoryMover mover(key_, 2);
  EXPECT_THAT(fetch(mover, 12345, 10).second, Not(IsEmpty()));
  uint64_t number = memory_->keep(pattern(10));
  EXPECT_THAT(fetch(mover, number, 11).second, Not(IsEmpty()));
}

TEST_F(NodeMemoryTest, APeerWithAnotherKeyGetsNothing) {
  uint64_t number = memory_->keep(pattern(10));
  MemoryMover stranger(TlsKey("another token of 16 bytes"), 1);
  auto [copy, why] = fetch(stranger, number, 10);
  EXPECT_FALSE(copy);
  EXPECT_NE(why, "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space
// The caller of `fetch` gets exactly one result: not first that no thread could be started, and
// then that the memory is there.
TEST(MemoryMoverTest, WithoutAnotherThreadWhatIsAskedForWaitsOrFailsAndNotBoth) {
  for (bool has_thread : {true, false}) {
    // Runs in a child process, which has no address space left for a stack.
    pid_t pid = ::fork();
    if (pid == 0) {
      std::atomic<int> answers{0};
      std::promise<void> released;
      auto until = released.get_future().share();
      {
        MemoryMover mover(TlsKey("a token of at least 16 bytes"), 4);
        const std::string nobody = "127.0.0.1:1";
        if (has_thread) {
          mover.fetch(nobody, 1, 1, [&, until](const auto&, const std::string&) {
            until.wait();
            ++answers;
          });
        }
        rlimit none{1 << 20, 1 << 20};
        ::setrlimit(RLIMIT_AS, &none);
        try {  // the stacks of threads that have ended
          for (int i = 0; i < 1000; ++i) start_thread("a test's", [] { ::pause(); }).detach();
        } catch (const Error&) {
        }
        std::string why;
        mover.fetch(nobody, 2, 1, [&](const auto&, const std::string& reason) {
          why = reason;
          ++answers;
        });
        if ((answers == 1) == has_thread) ::_exit(3);
        if (!has_thread && !why.starts_with("starting a thread that moves memory")) ::_exit(4);
        released.set_value();
        if (has_thread && !eventually([&] { return answers == 2; })) ::_exit(5);
      }
      ::_exit(answers == (has_thread ? 2 : 1) ? 0 : 6);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0) << has_thread;
    EXPECT_TRUE(WIFEXITED(status));
  }
}
#endif

// ---- A run whose objects are not encrypted

class PlainMemoryTest : public NodeMemoryTest {
 protected:
  PlainMemoryTest() : NodeMemoryTest(/*encrypt=*/false) {}
};

TEST_F(PlainMemoryTest, BytesArriveAsTheyAre) {
  MemoryMover mover(key_, 2, /*encrypt=*/false);
  for (size_t size : {size_t{1}, size_t{1} << 20, (size_t{1} << 20) + 1, size_t{20} << 20}) {
    auto original = pattern(size);
    auto [copy, why] = fetch(mover, memory_->keep(original), size);
    ASSERT_TRUE(copy) << why;
    EXPECT_EQ(text_of(*copy), text_of(*original));
  }
}

TEST_F(PlainMemoryTest, OnlyTheBytesAreReadableOnTheWay) {
  auto original = pattern(5000);
  uint64_t number = memory_->keep(original);
  MemoryMover mover(key_, 2, /*encrypt=*/false);
  TcpProxy proxy(listener_->address().port, TcpProxy::nothing);
  ASSERT_TRUE(fetch(mover, number, 5000, proxy.port()).first);
  EXPECT_THAT(proxy.recorded_of_server(), HasSubstr(text_of(*original)));
  std::string question = proxy.recorded();
  EXPECT_THAT(question, Not(HasSubstr("MNT1"))) << "frames are encrypted";
  std::string raw(reinterpret_cast<const char*>(&number), 5);
  EXPECT_THAT(question, Not(HasSubstr(raw)));
  // A recorded request cannot be replayed.
  UniqueFd replay = connect_tcp("127.0.0.1", listener_->address().port, Deadline::after(kPatience));
  ASSERT_EQ(::send(replay.get(), question.data(), question.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(question.size()));
  std::string answer;
  char bytes[4096];
  while (poll_until(replay.get(), POLLIN, Deadline::after(kPatience))) {
    ssize_t got = ::recv(replay.get(), bytes, sizeof(bytes), 0);
    if (got <= 0) break;
    answer.append(bytes, static_cast<size_t>(got));
  }
  EXPECT_THAT(answer, Not(HasSubstr(text_of(*original).substr(0, 100))));
}

TEST_F(NodeMemoryTest, NothingIsReadableOnTheWayByDefault) {
  auto original = pattern(5000);
  MemoryMover mover(key_, 2);
  TcpProxy proxy(listener_->address().port, TcpProxy::nothing);
  ASSERT_TRUE(fetch(mover, memory_->keep(original), 5000, proxy.port()).first);
  EXPECT_THAT(proxy.recorded_of_server(), Not(HasSubstr(text_of(*original).substr(0, 16))));
}

TEST_F(PlainMemoryTest, BytesThatAreDamagedOnTheWayAreNotTaken) {
  auto original = pattern(100'000);
  MemoryMover mover(key_, 2, /*encrypt=*/false);
  size_t seen = 0;
  TcpProxy proxy(listener_->address().port, TcpProxy::nothing, [&](std::string bytes) {
    bool damages = seen < 50'000 && seen + bytes.size() >= 50'000;  // long after the handshake
    seen += bytes.size();
    if (damages) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return std::pair(bytes, true);
  });
  auto [copy, why] = fetch(mover, memory_->keep(original), original->size(), proxy.port());
  EXPECT_FALSE(copy);
  EXPECT_THAT(why, HasSubstr("100000 bytes have been damaged on the way"));
}

TEST_F(PlainMemoryTest, BytesThatAreCutOffAreNotTaken) {
  auto original = pattern(100'000);
  MemoryMover mover(key_, 2, /*encrypt=*/false);
  size_t seen = 0;
  TcpProxy proxy(listener_->address().port, TcpProxy::nothing, [&](std::string bytes) {
    seen += bytes.size();
    return std::pair(bytes, seen < 50'000);
  });
  auto [copy, why] = fetch(mover, memory_->keep(original), original->size(), proxy.port());
  EXPECT_FALSE(copy);
  EXPECT_THAT(why, HasSubstr("of 100000 bytes"));
}

TEST_F(PlainMemoryTest, APeerWithAnotherKeyOrNoneGetsNothing) {
  uint64_t number = memory_->keep(pattern(10));
  MemoryMover stranger(TlsKey("another token of 16 bytes"), 1, /*encrypt=*/false);
  EXPECT_FALSE(fetch(stranger, number, 10).first);
  // A peer that does not even try to prove that it has a key: it sends an unencrypted frame.
  UniqueFd plain = connect_tcp("127.0.0.1", listener_->address().port, Deadline::after(kPatience));
  OutBuffer out;
  encode_message<FirstWord>(out, ReadMemory{number, 10, false});
  ASSERT_EQ(out.flush(plain.get()), IoStatus::kDone);
  std::string answer;
  char bytes[4096];
  while (poll_until(plain.get(), POLLIN, Deadline::after(kPatience))) {
    ssize_t got = ::recv(plain.get(), bytes, sizeof(bytes), 0);
    if (got <= 0) break;
    answer.append(bytes, static_cast<size_t>(got));
  }
  EXPECT_THAT(answer, Not(HasSubstr(text_of(*memory_->find(number)))));
}

// A peer with other options than the run's is not part of the run.
TEST_F(PlainMemoryTest, ARequestForEncryptionIsRefused) {
  MemoryMover mover(key_, 1, /*encrypt=*/true);
  EXPECT_FALSE(fetch(mover, memory_->keep(pattern(10)), 10).first);
}

TEST_F(NodeMemoryTest, ARequestForNoEncryptionIsRefused) {
  MemoryMover mover(key_, 1, /*encrypt=*/false);
  auto original = pattern(1000);
  TcpProxy proxy(listener_->address().port, TcpProxy::nothing);
  EXPECT_FALSE(fetch(mover, memory_->keep(original), 1000, proxy.port()).first);
  EXPECT_THAT(proxy.recorded_of_server(), Not(HasSubstr(text_of(*original).substr(0, 16))));
}

// A peer that takes nothing keeps one thread busy, not the others.
TEST_F(PlainMemoryTest, APeerThatStallsKeepsNoOtherWaiting) {
  auto original = pattern(20 << 20);  // more than the sockets hold
  uint64_t number = memory_->keep(original);
  auto stalls =
      connect_tls(key_, "127.0.0.1", listener_->address().port, Deadline::after(kPatience));
  OutBuffer out(/*takes_fds=*/false);
  encode_message<FirstWord>(out, ReadMemory{number, original->size(), false});
  ASSERT_EQ(out.flush(*stalls), IoStatus::kDone);
  MemoryMover mover(key_, 1, /*encrypt=*/false);
  auto [copy, why] = fetch(mover, number, original->size());
  ASSERT_TRUE(copy) << why;
  EXPECT_EQ(text_of(*copy), text_of(*original));
}

}  // namespace
}  // namespace manta
