// Another kind of source, in one file: it does not know how many rows its fragments have, and fails
// now and then.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <mutex>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/data/bounds_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/source_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

/// Fragment i has the numbers 100 i, 100 i + 1, ..., i % 3 + 5 of them.
class ToySource final : public Source {
 public:
  explicit ToySource(int fragments, ErrorKind fails_with = ErrorKind::kIo)
      : fragments_(static_cast<size_t>(fragments), Fragment{std::nullopt, 6}),
        fails_with_(fails_with) {}

  std::string_view name() const override { return "toy"; }
  std::string to_string() override { return "read_toy"; }
  Json to_json() override { return {{"fragments", fragments_.size()}}; }
  std::string why_not_stored() const override { return {}; }
  std::shared_ptr<arrow::Schema> schema() override {
    return arrow::schema({arrow::field("n", arrow::int64())});
  }
  const std::vector<Fragment>& fragments() override { return fragments_; }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override { return str("toy ", fragment); }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    for (int64_t i = 0; i < static_cast<int64_t>(fragment % 3) + 5; ++i) {
      if (i == 3 && fails_on_.contains(fragment) && (always_ || first_time(fragment))) {
        throw Error(fails_with_, "the toy fell down");
      }
      ASSERT_GE(piece_rows, 1);
      arrow::Int64Builder builder;
      ASSERT_TRUE(builder.Append(static_cast<int64_t>(fragment) * 100 + i).ok());
      arrow::ArrayVector arrays;
      if (!columns.empty()) arrays.push_back(builder.Finish().ValueOrDie());
      take(arrow::RecordBatch::Make(columns.empty() ? arrow::schema({}) : schema(), 1, arrays));
    }
  }

  void fail_once_on(size_t fragment) { fails_on_.insert(fragment); }
  void fail_always() { always_ = true; }

 private:
  bool first_time(size_t fragment) {
    std::lock_guard lock(mutex_);
    return failed_.insert(fragment).second;
  }

  const std::vector<Fragment> fragments_;
  const ErrorKind fails_with_;
  std::set<size_t> fails_on_;
  bool always_ = false;
  std::mutex mutex_;
  std::set<size_t> failed_;
};

std::vector<int64_t> numbers(const Dataset& dataset) { return ints(*dataset.to_table(), "n"); }

std::vector<int64_t> all_of_ten() {
  std::vector<int64_t> all;
  for (int64_t fragment = 0; fragment < 10; ++fragment) {
    for (int64_t i = 0; i < fragment % 3 + 5; ++i) all.push_back(fragment * 100 + i);
  }
  return all;
}

TEST(ToySourceTest, RowsOfUnknownNumberAreReadCountedFilteredAndSplit) {
  Dataset dataset = dataset_of(std::make_shared<ToySource>(10));
  EXPECT_EQ(numbers(dataset), all_of_ten());
  EXPECT_EQ(dataset.count(), static_cast<int64_t>(all_of_ten().size()));
  EXPECT_EQ(dataset.filter(col("n") >= 900).count(), 5);
  auto [train, test] = dataset.train_test_split(int64_t{9}, {.shuffle = true, .seed = 1});
  EXPECT_EQ(test.count(), 9);
  auto both = numbers(train);
  for (int64_t n : numbers(test)) both.push_back(n);
  EXPECT_THAT(both, testing::UnorderedElementsAreArray(all_of_ten()));
  auto shuffled = dataset.window_shuffle({.rows = 20, .seed = 3});
  EXPECT_THAT(numbers(shuffled), testing::UnorderedElementsAreArray(all_of_ten()));
  EXPECT_THAT(dataset.explain(), AllOf(HasSubstr("read_toy"), HasSubstr("about 60 rows")));
}

TEST(ToySourceTest, WhatCouldNotBeReadIsReadAgain) {
  auto source = std::make_shared<ToySource>(10);
  for (size_t fragment : {0u, 4u, 9u}) source->fail_once_on(fragment);
  EXPECT_EQ(numbers(dataset_of(source)), all_of_ten());
}

TEST(ToySourceTest, WhatCanNeverBeReadIsAnErrorThatSaysSo) {
  auto source = std::make_shared<ToySource>(10);
  source->fail_once_on(4);
  source->fail_always();
  EXPECT_THAT(message_of([&] { numbers(dataset_of(source)); }),
              AllOf(HasSubstr("the toy fell down"), HasSubstr("tried 3 times")));
}

TEST(ToySourceTest, WhatIsDamagedIsNotReadAgain) {
  auto source = std::make_shared<ToySource>(10, ErrorKind::kCorrupt);
  source->fail_once_on(4);
  EXPECT_THAT(message_of([&] { numbers(dataset_of(source)); }), HasSubstr("the toy fell down"));
}

TEST(ToySourceTest, OnlySourcesOfTheTableAreReadFromJson) {
  Dataset dataset = dataset_of(std::make_shared<ToySource>(10));
  EXPECT_THAT(message_of([&] { Dataset::from_json(dataset.to_json()); }),
              AllOf(HasSubstr("source.name"), HasSubstr("toy")));
}

}  // namespace
}  // namespace manta::data
