// Rows of CSV files in training: the number of a part's rows is known only once it is read.

#include <gmock/gmock.h>

#include <fstream>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/feed_fixture_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

constexpr int64_t kUnevenRows = 1500;

// Records of very different lengths, so that the numbers of rows in parts differ from the expected
// ones.
Dataset uneven_rows(const TemporaryFolder& folder) {
  std::ofstream file(folder / "a.csv", std::ios::binary);
  file << "id,text\r\n";
  for (int64_t i = 0; i < kUnevenRows; ++i) {
    file << i << ",\"" << std::string(static_cast<size_t>(i % 7 == 0 ? i % 300 : 0), 'x')
         << "\n\"\"\"\r\n";
  }
  file.close();
  return read_csv(folder / "a.csv", {.fragment_bytes = 3000});
}

TEST(CsvFeedTest, EveryRowComesOnceAndARunGoesOnWhereItWas) {
  TemporaryFolder folder;
  Dataset rows = uneven_rows(folder);
  ASSERT_GT(rows.plan()->source->fragments().size(), 5u);
  rows = Dataset::from_json(rows.to_json());
  std::vector<int64_t> all(kUnevenRows);
  std::iota(all.begin(), all.end(), 0);
  for (const Dataset& dataset : {rows, rows.window_shuffle({.rows = 200, .seed = 3})}) {
    Walk options{.options = {.global_batch_size = 48}, .epochs = 2};
    auto whole = walk(dataset, 2, options);
    EXPECT_EQ(walk(dataset, 3, options).steps, whole.steps);
    size_t half = whole.steps.size() / 2;
    std::vector<int64_t> ids;
    for (size_t i = 0; i < half; ++i) {
      ids.insert(ids.end(), whole.steps[i].begin(), whole.steps[i].end());
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, all);
    for (size_t step : {size_t{0}, size_t{13}, half - 1, half + 7}) {
      Position from = whole.positions[step];
      auto rest =
          walk(dataset, 1, {.options = options.options, .from = from, .epochs = 2 - from.epoch});
      Steps expected(whole.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1,
                     whole.steps.end());
      EXPECT_EQ(rest.steps, expected) << "after step " << step;
    }
  }
}

TEST(CsvFeedTest, PartsOfASplitAreTrainedOn) {
  TemporaryFolder folder;
  auto [train, test] = uneven_rows(folder).train_test_split(0.2, {.shuffle = true, .seed = 1});
  std::vector<int64_t> ids;
  for (const Dataset& part : {train, test}) {
    auto walked = walk(part.window_shuffle({.rows = 200, .seed = 3}), 2,
                       {.options = {.global_batch_size = 50}});
    for (const auto& step : walked.steps) ids.insert(ids.end(), step.begin(), step.end());
  }
  std::sort(ids.begin(), ids.end());
  std::vector<int64_t> all(kUnevenRows);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(ids, all);
}

}  // namespace
}  // namespace manta::data
