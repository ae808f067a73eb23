#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/core/node_memory_internal.h"
#include "manta/core/patience_internal.h"
#include "manta/io/tls_listener_internal.h"

namespace manta {
namespace {

using testing::IsEmpty;
using testing::Not;

std::shared_ptr<SharedMemory> pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 2654435761u >> 24);
  SharedMemoryWriter writer;
  writer.write(text.data(), text.size());
  return std::move(writer).finish();
}

// A node that serves its memory on the loopback interface.
class NodeMemoryTest : public testing::Test {
 protected:
  NodeMemoryTest() {
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
                                                              uint64_t size) {
    std::promise<std::pair<std::shared_ptr<SharedMemory>, std::string>> result;
    auto future = result.get_future();
    mover.fetch(listener_->address().text(), number, size,
                [&](std::shared_ptr<SharedMemory> memory, const std::string& why) {
                  result.set_value({std::move(memory), why});
                });
    return future.wait_for(kPatience) == std::future_status::ready
               ? future.get()
               : std::pair<std::shared_ptr<SharedMemory>, std::string>{nullptr, "nothing came"};
  }

  const TlsKey key_{"a token of at least 16 bytes"};
  MemoryMover mover_{key_, 2};
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

TEST_F(NodeMemoryTest, WhoeverHasAnotherKeyGetsNothing) {
  uint64_t number = memory_->keep(pattern(10));
  MemoryMover stranger(TlsKey("another token of 16 bytes"), 1);
  auto [copy, why] = fetch(stranger, number, 10);
  EXPECT_FALSE(copy);
  EXPECT_NE(why, "");
}

TEST(ParseAddress, TakesWhatTcpAddressWrites) {
  for (const char* text : {"10.0.0.7:4711", "[fd00::7]:4711"}) {
    EXPECT_EQ(parse_address(text).text(), text);
  }
  for (const char* text : {"", "10.0.0.7", ":1", "a:70000", "a:1x"}) {
    EXPECT_THROW(parse_address(text), Error) << text;
  }
}

}  // namespace
}  // namespace manta
