#include <gmock/gmock.h>

#include "manta/tune/progress_internal.h"

namespace manta::tune {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Trial trial(uint64_t number, Trial::State state, const std::vector<double>& losses) {
  Trial trial;
  trial.number = number;
  trial.state = state;
  trial.config = {{"params", {{"lr", 0.5 + static_cast<double>(number)}, {"layers", 3}}}};
  for (double loss : losses) trial.reports.push_back({{{"loss", loss}}, 1});
  return trial;
}

std::vector<Trial> some_trials() {
  std::vector<Trial> trials{trial(0, Trial::kDone, {0.3}), trial(1, Trial::kRunning, {0.5, 0.25}),
                            trial(2, Trial::kRunning, {}), trial(3, Trial::kDone, {0.1}),
                            trial(4, Trial::kPending, {})};
  trials[3].outcome = RunOutcome::kFailed;
  trials[3].error = Error(ErrorKind::kUserCode, "out of luck");
  return trials;
}

TEST(TuneProgressTest, TheTableHasALineForEachTrialThatRuns) {
  Progress progress({"loss", false}, true, true);
  EXPECT_THAT(progress.table(some_trials()),
              ElementsAre("2 trials done, 1 failed; 2 running; best: trial_00003, loss 0.1",
                          "  trial_00001 | params/lr 1.5 | report 1: loss 0.25",
                          "  trial_00002 | params/lr 2.5"));
  std::vector<Trial> many;
  for (uint64_t number = 0; number < 100; ++number)
    many.push_back(trial(number, Trial::kRunning, {}));
  auto lines = progress.table(many);
  EXPECT_EQ(lines.size(), 18u);
  EXPECT_EQ(lines.back(), "  and 84 more");
  EXPECT_EQ(lines.front(), "0 trials done; 100 running");
}

TEST(TuneProgressTest, TheSummaryHasTheBestFirst) {
  auto summary = [](const std::string& metric, bool maximize, bool verbose) {
    testing::internal::CaptureStderr();
    {
      Progress progress({metric, maximize}, verbose, false);
      progress.failed(some_trials()[3]);
      progress.summary(some_trials(), "/a/folder");
    }
    return testing::internal::GetCapturedStderr();
  };
  std::string shown = summary("loss", false, true);
  EXPECT_THAT(shown, AllOf(HasSubstr("manta: trial_00003 failed: out of luck\n"),
                           HasSubstr("manta: results in /a/folder\n")));
  EXPECT_LT(shown.find("  trial_00003"), shown.find("  trial_00001"));
  EXPECT_LT(shown.find("  trial_00001"), shown.find("  trial_00000"));
  shown = summary("loss", true, true);
  EXPECT_LT(shown.find("  trial_00000"), shown.find("  trial_00001"));
  EXPECT_THAT(summary("", false, true), Not(HasSubstr("best")));
  EXPECT_EQ(summary("loss", false, false), "");
}

}  // namespace
}  // namespace manta::tune
