#include <gtest/gtest.h>

#include "manta/base/names_internal.h"
#include "manta/io/crc32c_internal.h"

namespace manta {
namespace {

// The values of RFC 3720, B.4.
TEST(Crc32cTest, IsThatOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

}  // namespace
}  // namespace manta
