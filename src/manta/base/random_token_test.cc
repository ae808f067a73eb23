#include <gtest/gtest.h>

#include "manta/base/random_token_internal.h"

namespace manta {
namespace {

TEST(RandomToken, IsAnotherOneEachTime) {
  EXPECT_EQ(random_token().size(), 32u);
  EXPECT_NE(random_token(), random_token());
}

TEST(RandomToken, SecretsAreEqualOrNot) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd", "xbc"})
    EXPECT_FALSE(same_secret("abc", other));
  EXPECT_FALSE(same_secret("", "abc"));
}

}  // namespace
}  // namespace manta
