#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/data/step_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

constexpr const char* kName = "train";

// The steps from `position` to the end of an epoch of `total` rows, each determined as soon as
// possible.
std::vector<Rows> steps_from(const StepRule& rule, int64_t position, int64_t total) {
  std::vector<Rows> steps;
  while (true) {
    int64_t known = std::min(total, position + rows_to_look_at(rule));
    auto step = next_step(rule, position, known, known == total, kName);
    if (!step) return steps;
    steps.push_back(*step);
    position += step->rows;
  }
}

// The promise in other words: sizes of the steps of an epoch.
std::vector<int64_t> expected_sizes(int64_t global_batch, int64_t total) {
  std::vector<int64_t> sizes(static_cast<size_t>(total / global_batch), global_batch);
  int64_t rest = total % global_batch;
  if (rest == 0) return sizes;
  if (sizes.empty() || rest >= (global_batch + 1) / 2) {
    sizes.push_back(rest);
  } else {
    sizes.back() += rest;
  }
  return sizes;
}

TEST(StepTest, AGlobalBatchMakesTheSameStepsForAnyNumberOfWorkers) {
  for (int64_t global_batch : {1, 2, 3, 8, 13, 16, 31, 32, 64}) {
    for (int64_t total = 1; total <= 3 * global_batch + 5; ++total) {
      auto sizes = expected_sizes(global_batch, total);
      for (int world = 1; world <= 16; ++world) {
        SCOPED_TRACE(str("G ", global_batch, ", ", total, " rows, ", world, " workers"));
        auto make = [&] { return make_step_rule(256, global_batch, false, world, kName); };
        if ((global_batch + 1) / 2 < world) {
          EXPECT_EQ(error_of(make).kind(), ErrorKind::kInvalidArgument);
          continue;
        }
        StepRule rule = make();
        if (total < world) {
          auto fail = [&] { steps_from(rule, 0, total); };
          EXPECT_EQ(error_of(fail).kind(), ErrorKind::kInvalidArgument);
          continue;
        }
        auto steps = steps_from(rule, 0, total);
        ASSERT_EQ(steps.size(), sizes.size());
        int64_t row = 0;
        for (size_t i = 0; i < steps.size(); ++i) {
          ASSERT_EQ(steps[i], (Rows{row, sizes[i]}));
          for (int rank = 0; rank < world; ++rank) {  // their slices follow each other
            Rows slice = slice_of(steps[i], rank, world);
            ASSERT_EQ(slice.first_row, row);
            ASSERT_GE(slice.rows, 1);
            row += slice.rows;
          }
          // A run that resumes here takes the rest of the same steps.
          std::vector<Rows> rest(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end());
          ASSERT_EQ(steps_from(rule, row, total), rest);
        }
        ASSERT_EQ(row, total);
      }
    }
  }
}

TEST(StepTest, ABatchForEachWorkerLeavesNoRankWithASingleRow) {
  for (int64_t batch : {1, 2, 5, 32}) {
    for (int world = 1; world <= 16; ++world) {
      StepRule rule = make_step_rule(batch, 0, false, world, kName);
      for (int64_t total = world; total <= 4 * batch * world; ++total) {
        int64_t row = 0;
        for (const Rows& step : steps_from(rule, 0, total)) {
          ASSERT_EQ(step.first_row, row);
          ASSERT_GE(step.rows, std::min({total, batch * world, int64_t{2} * world}));
          row += step.rows;
        }
        ASSERT_EQ(row, total) << batch << " rows for each of " << world;
      }
    }
  }
}

// With `batch_size`, another number of workers means other steps. A rest that the workers cannot
// share is an error, before any row of it is taken.
TEST(StepTest, ARestThatIsTooShortForTheWorkersIsAnError) {
  for (int world = 1; world <= 16; ++world) {
    StepRule rule = make_step_rule(8, 0, false, world, kName);
    for (int64_t left = 1; left <= 40; ++left) {
      auto go_on = [&] { return steps_from(rule, 16, 16 + left); };
      if (left >= world) {
        int64_t rows = 0;
        for (const Rows& step : go_on()) rows += step.rows;
        EXPECT_EQ(rows, left);
        continue;
      }
      Error error = error_of(go_on);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(str("data set 'train' has ", left,
                                              " rows left behind row 16 of this epoch, which is "
                                              "not one for each of ",
                                              world, " workers: go on with at most ", left)));
    }
  }
}

TEST(StepTest, DropLastTakesWholeStepsOnly) {
  StepRule rule = make_step_rule(256, 4, true, 4, kName);
  EXPECT_EQ(steps_from(rule, 0, 11), (std::vector<Rows>{{0, 4}, {4, 4}}));
  EXPECT_EQ(steps_from(rule, 8, 11), (std::vector<Rows>{}));
  EXPECT_THAT(message_of([&] { steps_from(rule, 0, 3); }), HasSubstr("drop_last is set"));
}

TEST(StepTest, BadOptionsAreSaid) {
  struct {
    int64_t batch, global_batch;
    bool drop_last;
    const char* why;
  } cases[] = {
      {0, 0, false, "batch_size must be positive (was 0)"},
      {8, -1, false, "global_batch_size must be positive, or 0 for batch_size rows a worker"},
      {8, 6, false,
       "a global_batch_size of 6 makes steps of as few as 3 rows, which is not one for each of 4 "
       "workers: use a global_batch_size of at least 7, or at most 3 workers"},
      {8, 3, true, "use a global_batch_size of at least 4, or at most 3 workers"},
      {INT64_MAX, 0, false, "are too large"},
      {8, INT64_MAX, false, "are too large"},
  };
  for (const auto& one : cases) {
    Error error =
        error_of([&] { make_step_rule(one.batch, one.global_batch, one.drop_last, 4, kName); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("data set 'train'"));
    EXPECT_THAT(error.what(), HasSubstr(one.why));
  }
}

}  // namespace
}  // namespace manta::data
