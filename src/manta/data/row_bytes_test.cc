#include <arrow/api.h>
#include <gtest/gtest.h>

#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/row_bytes_internal.h"

namespace manta::data {
namespace {

std::shared_ptr<arrow::RecordBatch> batch_of(const std::shared_ptr<arrow::DataType>& type,
                                             int64_t rows, const Json& value) {
  auto column = array_from_json(type, Json(static_cast<size_t>(rows), value));
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("c", type)}), rows, {column});
}

// Ten rows of a thousand count as ten rows.
TEST(RowBytesTest, AViewCountsAsItsRows) {
  using namespace arrow;  // NOLINT
  struct Case {
    std::shared_ptr<DataType> type;
    Json value;
    int64_t bytes;  // of a row
  };
  const Case cases[] = {
      {int64(), 1, 8},
      {boolean(), true, 1},
      {utf8(), "hello", 4 + 5},
      {large_utf8(), "hello", 8 + 5},
      {list(int32()), Json{1, 2, 3}, 4 + 3 * 4},
      {fixed_size_list(int16(), 2), Json{1, 2}, 4},
      {struct_({field("a", int8()), field("b", utf8())}), Json{{"a", 1}, {"b", "xy"}}, 1 + 4 + 2}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.type->ToString());
    auto batch = batch_of(each.type, 1000, each.value);
    EXPECT_EQ(bytes_of_batch(*batch), 1000 * each.bytes);
    EXPECT_EQ(bytes_of_batch(*batch->Slice(500, 10)), 10 * each.bytes);
    EXPECT_EQ(bytes_of_rows(*batch, 500, 510), 10 * each.bytes);
    bool nested = each.type->num_fields() > 0;
    int64_t text = each.value.is_string() ? 5 : 0;
    EXPECT_EQ(bytes_beside_text(*each.type),
              nested ? std::nullopt : std::optional(each.bytes - text));
  }
}

TEST(RowBytesTest, ADictionaryIsKeptAsAWhole) {
  std::string text(1000, 'x');
  auto type = arrow::dictionary(arrow::int32(), arrow::utf8());
  auto batch = batch_of(type, 1000, text)->Slice(500, 10);
  EXPECT_GE(bytes_of_batch(*batch), 10 * 4 + 1000);
  EXPECT_LE(bytes_of_batch(*batch), 10 * 4 + 1000 + 100);
  EXPECT_EQ(bytes_of_rows(*batch, 0, 10), 10 * 4);
}

}  // namespace
}  // namespace manta::data
