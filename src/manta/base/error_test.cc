#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <typeinfo>

#include "manta/base/error_internal.h"

namespace manta {
namespace {

template <class T>
struct Box {};

TEST(ErrorTest, EveryKindHasItsName) {
  struct Case {
    ErrorKind kind;
    const char* name;
  };
  for (auto [kind, name] :
       {Case{ErrorKind::kInvalidArgument, "invalid argument"},
        Case{ErrorKind::kNotFound, "not found"}, Case{ErrorKind::kIo, "io"},
        Case{ErrorKind::kCorrupt, "corrupt"}, Case{ErrorKind::kResources, "resources"},
        Case{ErrorKind::kTimeout, "timeout"}, Case{ErrorKind::kWorkerLost, "worker lost"},
        Case{ErrorKind::kUserCode, "user code"}, Case{ErrorKind::kCancelled, "cancelled"}}) {
    EXPECT_EQ(kind_name(kind), name);
  }
  EXPECT_EQ(kind_name(static_cast<ErrorKind>(99)), "unknown");  // from a newer peer
}

TEST(ErrorTest, KeepsKindAndMessage) {
  Error error(ErrorKind::kTimeout, "no answer");
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_STREQ(error.what(), "no answer");
}

TEST(ErrorTest, StrStreamsItsArguments) {
  EXPECT_EQ(str("x = ", 1, ", ", 2.5, ' ', std::string("y"), std::string_view("z")),
            "x = 1, 2.5 yz");
  EXPECT_EQ(str("0x", std::hex, 255), "0xff");
}

TEST(ErrorTest, ThrowErrnoSaysWhatFailedAndWhy) {
  try {
    errno = ENOENT;
    throw_errno("opening 'data.csv'");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_STREQ(error.what(), "opening 'data.csv': No such file or directory");
  }
  EXPECT_EQ(errno_text(EPERM), "Operation not permitted");
}

TEST(ErrorTest, DemangleReadsTypesAndLeavesTheRest) {
  EXPECT_EQ(demangle(typeid(Error).name()), "manta::Error");
  EXPECT_EQ(demangle(typeid(Box<int>).name()), "manta::Box<int>");
  EXPECT_EQ(demangle("not mangled"), "not mangled");
  EXPECT_EQ(demangle(""), "");
}

TEST(ErrorTest, ABrokenInvariantAbortsWithItsPlace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(MANTA_CHECK(1 == 2, "arithmetic"),
               "manta: internal error at .*error_test.cc:[0-9]+: arithmetic \\(1 == 2\\)");
  MANTA_CHECK(1 == 1, "arithmetic");
}

}  // namespace
}  // namespace manta
