#include <gtest/gtest.h>

#include <memory>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace {

using arrow::Status;

TEST(ArrowStatusTest, SuccessPasses) {
  check(Status::OK(), "doing nothing");
  EXPECT_EQ(check(arrow::Result<int>(7), "counting"), 7);
  auto moved = check(arrow::Result(std::make_unique<int>(8)), "moving");
  EXPECT_EQ(*moved, 8);
}

TEST(ArrowStatusTest, FailuresBecomeErrorsOfTheFittingKind) {
  struct Case {
    Status status;
    ErrorKind kind;
  };
  for (const auto& [status, kind] :
       {Case{Status::CapacityError("why"), ErrorKind::kResources},
        Case{Status::Invalid("why"), ErrorKind::kInvalidArgument},
        Case{Status::TypeError("why"), ErrorKind::kInvalidArgument},
        Case{Status::NotImplemented("why"), ErrorKind::kInvalidArgument},
        Case{Status::IndexError("why"), ErrorKind::kInvalidArgument},
        Case{Status::KeyError("why"), ErrorKind::kNotFound},
        Case{Status::SerializationError("why"), ErrorKind::kCorrupt},
        Case{Status::Cancelled("why"), ErrorKind::kCancelled},
        Case{Status::IOError("why"), ErrorKind::kIo},
        Case{Status::UnknownError("why"), ErrorKind::kIo}}) {
    SCOPED_TRACE(status.ToString());
    try {
      check(status, "reading 'x.parquet'");
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_STREQ(error.what(), "reading 'x.parquet': why");
    }
    EXPECT_THROW(check(arrow::Result<int>(status), "reading 'x.parquet'"), Error);
  }
}

TEST(ArrowStatusTest, OutOfMemoryNamesTheLimits) {
  try {
    check(Status::OutOfMemory("malloc of size 7 failed"), "sorting rows");
    ADD_FAILURE() << "threw nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    std::string said = "sorting rows: malloc of size 7 failed; limits of this process: ";
    EXPECT_EQ(std::string(error.what()).substr(0, said.size()), said);
  }
}

}  // namespace
}  // namespace manta
