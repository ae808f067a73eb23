// Against Python's DistributedSampler: expected/make_data_loader_expected.py made the numbers.

#include "manta/torch/data_loader.h"

#include <gmock/gmock.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/transforms/stack.h>

#include "manta/base/error_of_internal.h"
#include "manta/base/json.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

constexpr const char* kLoaderExpected =
#include "manta/torch/expected/data_loader_expected.inc"
    ;

TEST(DataLoader, GivesTheRowsOfPythonsSampler) {
  for (const Json& one : Json::parse(kLoaderExpected)) {
    DataLoaderOptions options{
        .shuffle = one.at("shuffle"), .seed = 11, .drop_last = one.at("drop_last")};
    EXPECT_EQ(detail::rows_of_epoch(one.at("rows"), one.at("rank"), one.at("workers"),
                                    one.at("epoch"), options),
              one.at("expected").get<std::vector<size_t>>())
        << one.dump();
  }
}

struct Squares : torch::data::datasets::Dataset<Squares> {
  explicit Squares(size_t count) : rows(count) {}
  torch::data::Example<> get(size_t index) override {
    auto value = static_cast<float>(index);
    return {torch::full({1}, value), torch::full({1}, value * value)};
  }
  std::optional<size_t> size() const override { return rows; }
  size_t rows;
};

TEST(DataLoader, GoesOverADataSetInBatches) {
  for (size_t threads : {0, 2}) {
    auto loader = prepare_data_loader(Squares(10).map(torch::data::transforms::Stack<>()),
                                      {.batch_size = 4, .seed = 3, .threads = threads});
    EXPECT_EQ(loader.size(), 3);
    std::vector<std::vector<float>> epochs;
    for (int64_t epoch : {0, 1, 0}) {
      loader.set_epoch(epoch);
      std::vector<float> seen;
      size_t batches = 0;
      for (auto& batch : loader) {
        EXPECT_TRUE(torch::equal(batch.data.square(), batch.target));
        for (int64_t i = 0; i < batch.data.size(0); ++i)
          seen.push_back(batch.data[i].item<float>());
        ++batches;
      }
      EXPECT_EQ(batches, 3);
      epochs.push_back(seen);
    }
    EXPECT_THAT(epochs[0], testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_EQ(epochs[0], epochs[2]);
  }
}

TEST(DataLoader, BadOptionsAreSaid) {
  auto stacked = [](size_t rows) { return Squares(rows).map(torch::data::transforms::Stack<>()); };
  EXPECT_THAT(message_of([&] { prepare_data_loader(stacked(3), {.batch_size = 0}); }),
              HasSubstr("batch_size must be positive (was 0)"));
  EXPECT_THAT(message_of([&] { prepare_data_loader(stacked(0)); }), HasSubstr("has no rows"));
  EXPECT_THAT(message_of([] { detail::check_loader(3, 4, {.drop_last = true}); }),
              HasSubstr("has 3 rows, which is not one for each of 4 workers"));
}

}  // namespace
}  // namespace manta::train
