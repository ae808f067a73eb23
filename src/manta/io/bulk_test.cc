#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/io/bulk_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::vector<uint8_t> pattern(size_t size) {
  std::vector<uint8_t> bytes(size);
  uint32_t state = 1;
  for (auto& byte : bytes)
    byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

class BulkTest : public testing::TestWithParam<TransportKind> {
 protected:
  TransportPair pair_ = GetParam().make();
};

TEST_P(BulkTest, EveryByteArrives) {
  for (size_t size : {1u, 16383u, 16384u, 256u << 10, (256u << 10) + 1, 10'000'000u}) {
    SCOPED_TRACE(size);
    auto bytes = pattern(size);
    std::thread sender([&] { send_bulk(*pair_.first, bytes, 50s); });
    auto memory = receive_bulk(*pair_.second, size, 50s);
    sender.join();
    ASSERT_EQ(memory->size(), size);
    EXPECT_EQ(std::memcmp(memory->data(), bytes.data(), size), 0);
  }
}

TEST_P(BulkTest, APeerThatSendsOrTakesNothingIsGivenUp) {
  auto bytes = pattern(1000);
  send_bulk(*pair_.first, bytes, 50s);
  Error error = error_of([&] { receive_bulk(*pair_.second, 1001, 30ms); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("for 30 ms, after 1000 of 1001 bytes"));
  EXPECT_THAT(error.what(), HasSubstr(pair_.second->peer()));
  bytes = pattern(50'000'000);  // more than any socket buffer
  error = error_of([&] { send_bulk(*pair_.first, bytes, 30ms); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("of 50000000 bytes"));
}

TEST_P(BulkTest, APeerThatClosesIsNamed) {
  auto bytes = pattern(1000);
  send_bulk(*pair_.first, bytes, 50s);
  pair_.first.reset();
  Error error = error_of([&] { receive_bulk(*pair_.second, 2000, 50s); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), HasSubstr("it closed the connection after 1000 of 2000 bytes"));
  bytes = pattern(50'000'000);
  EXPECT_EQ(error_of([&] { send_bulk(*pair_.second, bytes, 50s); }).kind(), ErrorKind::kIo);
}

TEST_P(BulkTest, AChecksumFollowsTheBytes) {
  for (size_t size : {1u, 256u << 10, (256u << 10) + 1, 3'000'000u}) {
    SCOPED_TRACE(size);
    auto bytes = pattern(size);
    std::thread sender([&] { send_bulk(*pair_.first, bytes, 50s, BulkCheck::kChecksum); });
    auto memory = receive_bulk(*pair_.second, size, 50s, BulkCheck::kChecksum);
    sender.join();
    ASSERT_EQ(memory->size(), size);
    EXPECT_EQ(std::memcmp(memory->data(), bytes.data(), size), 0);
  }
}

TEST_P(BulkTest, DamagedBytesAreNotTaken) {
  auto bytes = pattern(1000);
  Checksum checksum;
  checksum.add(bytes.data(), bytes.size());
  std::string sum = checksum.hex();
  bytes[500] ^= 1;
  send_bulk(*pair_.first, bytes, 50s);
  send_bulk(*pair_.first, {reinterpret_cast<const uint8_t*>(sum.data()), sum.size()}, 50s);
  Error error = error_of([&] { receive_bulk(*pair_.second, 1000, 50s, BulkCheck::kChecksum); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("1000 bytes have been damaged"));
  EXPECT_THAT(error.what(), HasSubstr(pair_.second->peer()));
}

INSTANTIATE_TEST_SUITE_P(Transports, BulkTest, kTransportKinds, name_of_kind);

}  // namespace
}  // namespace manta
