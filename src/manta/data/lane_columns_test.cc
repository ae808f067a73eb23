#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/data/lane_columns_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

// In DuckDB's 32 bits for a length, 4 GiB and 3 bytes would become 3. The bytes themselves do not
// exist: only the length is checked.
TEST(LaneColumnsTest, AValueOfFourGibibytesIsRefused) {
  const int64_t offsets[] = {0, (int64_t{4} << 30) + 3};
  arrow::LargeBinaryArray lane(1, arrow::Buffer::Wrap(offsets, 2),
                               std::make_shared<arrow::Buffer>(nullptr, 0));
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [&] { fill_vector(nullptr, lane, 0, 1); }),
      HasSubstr("has 4294967299 bytes; sorts, groups and joins take values of less than 4 GiB"));
}

}  // namespace
}  // namespace manta::data
