#include "manta/io/frame.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/io/channel_internal.h"

namespace manta {
namespace {

struct Received {
  uint16_t type = 0;
  std::string body;
  std::vector<UniqueFd> fds;
};

constexpr uint32_t kMagic = 0x31544e4d;

std::string header(uint32_t length, uint16_t type = 1, uint16_t fd_count = 0,
                   uint32_t magic = kMagic) {
  std::string bytes(12, '\0');
  std::memcpy(bytes.data(), &magic, 4);
  std::memcpy(bytes.data() + 4, &length, 4);
  std::memcpy(bytes.data() + 8, &type, 2);
  std::memcpy(bytes.data() + 10, &fd_count, 2);
  return bytes;
}

UniqueFd memfd_with(const std::string& text) {
  UniqueFd fd(::memfd_create("frame_test", MFD_CLOEXEC));
  EXPECT_EQ(::pwrite(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return fd;
}

std::string text_of(int fd) {
  char text[64];
  ssize_t size = ::pread(fd, text, sizeof(text), 0);
  return size < 0 ? errno_text(errno) : std::string(text, static_cast<size_t>(size));
}

class FrameTest : public testing::Test {
 protected:
  FrameTest() {
    std::tie(writer_, reader_) = socket_pair();
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }

  void write_raw(std::string_view bytes) {
    ASSERT_EQ(::send(writer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
              static_cast<ssize_t>(bytes.size()));
  }
  // Adds the frames that are there; false once there is nothing more to read.
  bool read_some(std::vector<Received>& frames) {
    if (decoder_.receive(reader_.get(), MSG_DONTWAIT) != IoStatus::kDone) return false;
    for (Frame frame; decoder_.next(&frame);) {
      frames.push_back({frame.type, std::string(frame.body), std::move(frame.fds)});
    }
    return true;
  }
  // Writes and reads in turn, as a socket takes only a limited number of bytes.
  std::vector<Received> pump() {
    std::vector<Received> frames;
    while (out_.flush(writer_.get()) == IoStatus::kWouldBlock || !out_.empty()) {
      EXPECT_TRUE(read_some(frames));
    }
    while (read_some(frames)) {
    }
    return frames;
  }

  UniqueFd writer_, reader_;
  OutBuffer out_;
  FrameDecoder decoder_;
};

TEST_F(FrameTest, RoundTrip) {
  struct Case {
    uint16_t type;
    std::string body;
  };
  for (const auto& [type, body] :
       {Case{0, ""}, Case{1, "x"}, Case{65535, std::string("\0\xff\n", 3)},
        Case{7, std::string(64 << 10, 'a')}, Case{8, std::string((256 << 10) - 12, 'b')},
        Case{9, std::string(1 << 20, 'c')}, Case{10, std::string(kMaxFrameBody, 'd')}}) {
    SCOPED_TRACE(body.size());
    out_.push(type, body);
    EXPECT_EQ(out_.size(), body.size() + 12);
    auto frames = pump();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].type, type);
    EXPECT_TRUE(frames[0].body == body);
    EXPECT_TRUE(frames[0].fds.empty());
    EXPECT_TRUE(out_.empty());
  }
}

TEST_F(FrameTest, SeveralFramesInOneWrite) {
  for (uint16_t i = 0; i < 1000; ++i) out_.push(i, std::string(i % 50, 'x'));
  ASSERT_EQ(out_.flush(writer_.get()), IoStatus::kDone);
  std::vector<Received> frames;
  ASSERT_TRUE(read_some(frames));
  ASSERT_EQ(frames.size(), 1000u);
  for (uint16_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(frames[i].type, i);
    EXPECT_EQ(frames[i].body.size(), i % 50);
  }
}

TEST_F(FrameTest, FramesArriveByteByByte) {
  std::vector<Received> frames;
  std::string bytes = header(5, 3) + "hello" + header(0, 4) + header(1, 5) + "!";
  for (size_t i = 0; i < bytes.size(); ++i) {
    write_raw(bytes.substr(i, 1));
    ASSERT_TRUE(read_some(frames));
    EXPECT_EQ(frames.size(), i + 1 < 17 ? 0u : i + 1 < 29 ? 1u : i + 1 < 42 ? 2u : 3u) << i;
  }
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].body, "hello");
  EXPECT_EQ(frames[1].body, "");
  EXPECT_EQ(frames[2].body, "!");
}

TEST_F(FrameTest, ABodyIsValidUntilTheDecoderIsFedAgain) {
  out_.push(1, std::string(100, 'a'));
  out_.push(2, std::string(200, 'b'));
  ASSERT_EQ(out_.flush(writer_.get()), IoStatus::kDone);
  ASSERT_EQ(decoder_.receive(reader_.get()), IoStatus::kDone);
  Frame first, second, third;
  ASSERT_TRUE(decoder_.next(&first));
  ASSERT_TRUE(decoder_.next(&second));
  ASSERT_FALSE(decoder_.next(&third));
  EXPECT_EQ(first.body, std::string(100, 'a'));
  EXPECT_EQ(second.body, std::string(200, 'b'));
}

TEST_F(FrameTest, ABodyIsValidAlthoughALargerFrameHasBegun) {
  write_raw(header(3, 1) + "abc" + header(4 << 20, 2) + "the first part");
  ASSERT_EQ(decoder_.receive(reader_.get()), IoStatus::kDone);
  Frame first, second;
  ASSERT_TRUE(decoder_.next(&first));
  ASSERT_FALSE(decoder_.next(&second));  // makes no room before it is fed
  EXPECT_EQ(first.body, "abc");
}

TEST_F(FrameTest, DescriptorsArriveInOrderAndWork) {
  for (size_t count : {1u, 250u, 251u, 1000u, 2048u}) {
    SCOPED_TRACE(count);
    std::vector<OutgoingFd> fds;
    for (size_t i = 0; i < count; ++i) {
      auto owner = std::make_shared<UniqueFd>(memfd_with(std::to_string(i)));
      fds.push_back({owner->get(), owner});
    }
    out_.push(1, "before");
    out_.push(2, "", std::move(fds));  // only the header's bytes can carry them
    out_.push(3, "after");
    auto frames = pump();
    ASSERT_EQ(frames.size(), 3u);
    EXPECT_EQ(frames[0].fds.size() + frames[2].fds.size(), 0u);
    ASSERT_EQ(frames[1].fds.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(text_of(frames[1].fds[i].get()), std::to_string(i));
      ASSERT_EQ(::fcntl(frames[1].fds[i].get(), F_GETFD), FD_CLOEXEC);
    }
  }
}

TEST_F(FrameTest, DescriptorsOfNeighbouringFramesDoNotMix) {
  for (uint16_t i = 0; i < 200; ++i) {
    std::vector<OutgoingFd> fds;
    for (int j = 0; j < i % 4; ++j) {
      auto owner = std::make_shared<UniqueFd>(memfd_with(str(i, ".", j)));
      fds.push_back({owner->get(), owner});
    }
    out_.push(i, std::string(i % 3 == 0 ? 30000 : 0, 'x'), std::move(fds));
  }
  auto frames = pump();
  ASSERT_EQ(frames.size(), 200u);
  for (uint16_t i = 0; i < 200; ++i) {
    ASSERT_EQ(frames[i].fds.size(), i % 4) << i;
    for (int j = 0; j < i % 4; ++j) {
      EXPECT_EQ(text_of(frames[i].fds[static_cast<size_t>(j)].get()), str(i, ".", j));
    }
  }
}

TEST_F(FrameTest, ASentDescriptorIsLetGo) {
  auto owner = std::make_shared<UniqueFd>(memfd_with("x"));
  std::weak_ptr<UniqueFd> watch = owner;
  out_.push(1, "", {{owner->get(), owner}});
  owner.reset();
  EXPECT_FALSE(watch.expired());
  ASSERT_EQ(out_.flush(writer_.get()), IoStatus::kDone);
  EXPECT_TRUE(watch.expired());
}

TEST_F(FrameTest, WhatIsNoFrameIsCorrupt) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* message;
  };
  for (const auto& [name, bytes, message] :
       {Case{"wrong magic", header(1, 1, 0, 0x12345678) + "x", "wrong magic number"},
        Case{"text", "GET / HTTP/1.1\r\n\r\n", "wrong magic number"},
        Case{"too long", header((64u << 20) + 1), "67108865 bytes, the limit is 67108864"},
        Case{"length -1", header(UINT32_MAX), "4294967295 bytes"},
        Case{"too many descriptors", header(0, 1, 2049), "2049 descriptors, the limit is 2048"},
        Case{"descriptors that were not sent", header(0, 1, 1), "1 descriptors with 0 of them"}}) {
    SCOPED_TRACE(name);
    std::tie(writer_, reader_) = socket_pair();
    write_raw(bytes);
    FrameDecoder decoder;
    ASSERT_EQ(decoder.receive(reader_.get()), IoStatus::kDone);
    Frame frame;
    try {
      decoder.next(&frame);
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
}

TEST_F(FrameTest, TheLimitOfABodyCanBeSet) {
  FrameDecoder decoder(10);
  write_raw(header(10) + "0123456789" + header(11) + "0123456789a");
  ASSERT_EQ(decoder.receive(reader_.get()), IoStatus::kDone);
  Frame frame;
  ASSERT_TRUE(decoder.next(&frame));
  EXPECT_EQ(error_of([&] { decoder.next(&frame); }).kind(), ErrorKind::kCorrupt);
  decoder.trust();
  EXPECT_TRUE(decoder.next(&frame));
}

// Nor if no frame names them.
TEST_F(FrameTest, DescriptorsFromAStrangerAreNotKept) {
  FrameDecoder decoder(100, /*takes_fds=*/false);
  auto send_two = [&] {
    out_.push(1, "", {{reader_.get(), nullptr}, {reader_.get(), nullptr}});
    ASSERT_EQ(out_.flush(writer_.get()), IoStatus::kDone);
  };
  send_two();
  Error error = error_of([&] { decoder.receive(reader_.get()); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), testing::HasSubstr("may not send any"));
  FrameDecoder trusted(100, false);
  trusted.trust();
  send_two();
  ASSERT_EQ(trusted.receive(reader_.get()), IoStatus::kDone);
  Frame frame;
  ASSERT_TRUE(trusted.next(&frame));
  EXPECT_EQ(frame.fds.size(), 2u);
}

TEST_F(FrameTest, ACloseBetweenFramesIsClean) {
  write_raw(header(2) + "ab");
  writer_.reset();
  std::vector<Received> frames;
  EXPECT_TRUE(read_some(frames));
  EXPECT_EQ(frames.size(), 1u);
  EXPECT_EQ(decoder_.receive(reader_.get()), IoStatus::kClosed);
  EXPECT_EQ(decoder_.receive(reader_.get()), IoStatus::kClosed);
}

TEST_F(FrameTest, ACloseWithinAFrameIsCorrupt) {
  std::string whole = header(4) + "abcd";
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    SCOPED_TRACE(cut);
    std::tie(writer_, reader_) = socket_pair();
    write_raw(whole.substr(0, cut));
    writer_.reset();
    FrameDecoder decoder;
    Frame frame;
    ASSERT_EQ(decoder.receive(reader_.get()), IoStatus::kDone);
    ASSERT_FALSE(decoder.next(&frame));
    EXPECT_EQ(error_of([&] { decoder.receive(reader_.get()); }).kind(), ErrorKind::kCorrupt);
  }
}

TEST_F(FrameTest, AFrameOverTheLimitsIsRefusedAndTheOthersAreSent) {
  out_.push(1, "first");
  out_.begin(2).append(kMaxFrameBody + 1, 'x');
  EXPECT_EQ(error_of([&] { out_.end(); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { out_.push(3, "", std::vector<OutgoingFd>(kMaxFrameFds + 1)); }).kind(),
            ErrorKind::kInvalidArgument);
  out_.push(4, "last");
  auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].body, "first");
  EXPECT_EQ(frames[1].body, "last");
}

TEST_F(FrameTest, AFullSocketIsContinuedLater) {
  std::string large(8 << 20, 'x');
  out_.push(1, large);
  ASSERT_EQ(out_.flush(writer_.get()), IoStatus::kWouldBlock);
  EXPECT_GT(out_.size(), 0u);
  EXPECT_LT(out_.size(), large.size());
  auto owner = std::make_shared<UniqueFd>(memfd_with("late"));
  out_.push(2, "behind it", {{owner->get(), owner}});
  ASSERT_EQ(out_.flush(writer_.get()), IoStatus::kWouldBlock);
  auto frames = pump();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(frames[0].body == large);
  EXPECT_EQ(frames[1].body, "behind it");
  ASSERT_EQ(frames[1].fds.size(), 1u);
  EXPECT_EQ(text_of(frames[1].fds[0].get()), "late");
}

TEST_F(FrameTest, NothingToReadWouldBlock) {
  EXPECT_EQ(decoder_.receive(reader_.get(), MSG_DONTWAIT), IoStatus::kWouldBlock);
}

TEST_F(FrameTest, WritingToAClosedPeerIsClosedAndNoSignal) {
  reader_.reset();
  out_.push(1, "x");
  EXPECT_EQ(out_.flush(writer_.get()), IoStatus::kClosed);  // SIGPIPE would end the test program
  EXPECT_EQ(out_.flush(writer_.get()), IoStatus::kClosed);
}

// A peer that dies with unread frames resets the connection: recvmsg(2) fails, and says nothing
// about descriptors. Those that this thread sent or received before must not be taken for new ones.
TEST_F(FrameTest, AResetConnectionClosesNoOtherDescriptors) {
  auto owner = std::make_shared<UniqueFd>(memfd_with("mine"));
  out_.push(1, "never read", {{owner->get(), owner}});
  ASSERT_EQ(out_.flush(writer_.get()), IoStatus::kDone);
  reader_.reset();
  {
    FrameDecoder decoder;
    EXPECT_EQ(decoder.receive(writer_.get()), IoStatus::kClosed);
  }
  EXPECT_EQ(text_of(owner->get()), "mine");
}

TEST_F(FrameTest, RandomBytesNeverCrash) {
  std::mt19937 random(1);
  auto up_to = [&](uint32_t max) {
    return std::uniform_int_distribution<uint32_t>(0, max)(random);
  };
  int corrupt = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (uint32_t frames = up_to(3); frames > 0; --frames) {
      std::string body(up_to(300), 'x');
      uint32_t length = up_to(3) ? static_cast<uint32_t>(body.size()) : up_to(1 << 21);
      bytes += header(length, static_cast<uint16_t>(up_to(65535)), up_to(20) ? 0 : 1) + body;
    }
    if (up_to(1)) {
      for (uint32_t i = up_to(40); i > 0; --i) bytes += static_cast<char>(up_to(255));
    }
    for (uint32_t i = up_to(2); i > 0 && !bytes.empty(); --i) {
      bytes[up_to(static_cast<uint32_t>(bytes.size()) - 1)] ^= static_cast<char>(1 << up_to(7));
    }
    std::tie(writer_, reader_) = socket_pair();
    FrameDecoder decoder(1 << 20);
    try {
      for (size_t at = 0; at < bytes.size();) {
        size_t size = std::min<size_t>(1 + up_to(200), bytes.size() - at);
        write_raw(std::string_view(bytes).substr(at, size));
        at += size;
        decoder.receive(reader_.get());
        for (Frame frame; decoder.next(&frame);) {
        }
      }
      writer_.reset();
      decoder.receive(reader_.get());
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
      ++corrupt;
    }
  }
  EXPECT_GT(corrupt, 100);
  EXPECT_LT(corrupt, 2000);
}

}  // namespace
}  // namespace manta
