#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <gmock/gmock.h>

#include "manta/data/generator_internal.h"
#include "manta/data/reordered_rows_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;

std::shared_ptr<arrow::Array> random_column(const TypePtr& type, int64_t rows, bool nulls,
                                            Generator& random) {
  arrow::StringBuilder texts;
  for (int64_t i = 0; i < rows; ++i) {
    uint64_t value = random.next();
    if (nulls && value % 5 == 0) {
      check(texts.AppendNull(), "test");
    } else if (arrow::is_base_binary_like(type->id()) || type->id() == arrow::Type::LIST) {
      check(texts.Append(std::string(value % 23, static_cast<char>('a' + value % 26))), "test");
    } else {
      check(texts.Append(std::to_string(type->id() == arrow::Type::BOOL ? value % 2 : value % 120)),
            "test");
    }
  }
  auto column = check(texts.Finish(), "test");
  if (type->id() != arrow::Type::LIST) return check(arrow::compute::Cast(*column, type), "test");
  auto offsets = std::static_pointer_cast<arrow::StringArray>(column)->value_offsets();
  auto& strings = static_cast<const arrow::StringArray&>(*column);
  auto bytes = std::make_shared<arrow::Int8Array>(strings.value_offset(rows), strings.value_data());
  return std::make_shared<arrow::ListArray>(type, rows, offsets, bytes, strings.null_bitmap());
}

// Rows of all these types, in batches of several sizes, which are parts of larger ones.
Batches random_batches(const std::vector<TypePtr>& types, const std::vector<int64_t>& sizes,
                       bool nulls) {
  Generator random({7});
  arrow::FieldVector fields;
  for (const auto& type : types) fields.push_back(arrow::field(type->ToString(), type));
  Batches batches;
  for (int64_t rows : sizes) {
    arrow::ArrayVector columns;
    for (const auto& type : types) columns.push_back(random_column(type, rows + 5, nulls, random));
    auto batch = arrow::RecordBatch::Make(arrow::schema(fields), rows + 5, std::move(columns));
    batches.push_back(batch->Slice(3, rows));
  }
  return batches;
}

void expect_as_taken(const Batches& batches) {
  auto order = Generator({3}).permutation(count_rows(batches));
  auto given = reordered(batches, order);
  check(given->ValidateFull(), "reordered");
  auto all = concatenate(batches);
  arrow::UInt32Array rows(std::ssize(order), arrow::Buffer::Wrap(order));
  ASSERT_EQ(given->num_columns(), all->num_columns());
  for (int i = 0; i < all->num_columns(); ++i) {
    auto expected = check(arrow::compute::Take(*all->column(i), rows), "test");
    EXPECT_TRUE(given->column(i)->Equals(*expected)) << all->column_name(i);
    EXPECT_EQ(given->column(i)->null_count(), expected->null_count()) << all->column_name(i);
  }
}

std::vector<TypePtr> many_types() {
  using namespace arrow;  // NOLINT
  return {int8(), uint16(), int32(),   float32(),    int64(),           float64(),
          utf8(), binary(), boolean(), large_utf8(), decimal128(20, 2), list(int8())};
}

TEST(ReorderedRowsTest, AnyTypeInAnyNumberOfBatches) {
  for (bool nulls : {false, true}) {
    SCOPED_TRACE(nulls);
    expect_as_taken(random_batches(many_types(), {1}, nulls));
    expect_as_taken(random_batches(many_types(), {3, 0, 5000, 70}, nulls));
    expect_as_taken(random_batches(many_types(), {1000, 3096}, nulls));
  }
}

// Many buckets, of which the last one is not full.
TEST(ReorderedRowsTest, ManyRows) {
  expect_as_taken(
      random_batches({arrow::int64(), arrow::utf8(), arrow::boolean()}, {200'000, 70'001}, true));
}

TEST(ReorderedRowsTest, TimesCodesAndNulls) {
  using namespace arrow;  // NOLINT
  auto numbers = random_batches({int64(), int32()}, {500, 800}, true);
  Batches batches;
  for (const auto& batch : numbers) {
    auto times = check(batch->column(0)->View(timestamp(TimeUnit::MICRO)), "test");
    auto days = check(batch->column(1)->View(date32()), "test");
    auto texts = check(compute::Cast(*batch->column(0), utf8()), "test");
    auto codes = check(compute::DictionaryEncode(texts), "test").make_array();
    auto nothing = check(MakeArrayOfNull(null(), batch->num_rows()), "test");
    batches.push_back(
        RecordBatch::Make(schema({field("times", times->type()), field("days", days->type()),
                                  field("codes", codes->type()), field("nothing", null())}),
                          batch->num_rows(), {times, days, codes, nothing}));
  }
  auto order = Generator({3}).permutation(1300);
  auto given = reordered(batches, order);
  check(given->ValidateFull(), "reordered");
  UInt32Array rows(1300, Buffer::Wrap(order));
  auto all = check(Table::FromRecordBatches(batches), "test");
  auto expected = check(compute::Take(all, Datum(rows.data())), "test").table();
  for (int i = 0; i < given->num_columns(); ++i) {
    auto as_text = [](const Datum& column) {
      return column.type()->id() == Type::DICTIONARY ? check(compute::Cast(column, utf8()), "test")
                                                     : column;
    };
    EXPECT_TRUE(as_text(Datum(std::make_shared<ChunkedArray>(given->column(i))))
                    .chunked_array()
                    ->Equals(as_text(Datum(expected->column(i))).chunked_array()))
        << given->column_name(i);
  }
}

TEST(ReorderedRowsTest, NoRowsAndNoColumns) {
  EXPECT_EQ(reordered(random_batches({arrow::int64()}, {0}, false), {})->num_rows(), 0);
  auto order = Generator({3}).permutation(10);
  auto given = reordered(random_batches({}, {10}, false), order);
  EXPECT_EQ(given->num_rows(), 10);
  EXPECT_EQ(given->num_columns(), 0);
}

TEST(ConcatenateTest, PartsOfOneBatchAreNotCopied) {
  auto all = random_batches(many_types(), {5000}, true).front();
  auto parts = rechunk({all}, 700);
  auto again = concatenate(parts);
  check(again->ValidateFull(), "together");
  EXPECT_TRUE(again->Equals(*all));
  for (int i = 0; i < all->num_columns(); ++i) {
    EXPECT_EQ(again->column(i)->null_count(), all->column(i)->null_count());
    EXPECT_EQ(again->column_data(i)->buffers, all->column_data(i)->buffers);
  }
  std::swap(parts[2], parts[3]);
  auto copied = concatenate(parts);
  check(copied->ValidateFull(), "together");
  EXPECT_FALSE(copied->Equals(*all));
  EXPECT_EQ(copied->num_rows(), all->num_rows());
}

}  // namespace
}  // namespace manta::data
