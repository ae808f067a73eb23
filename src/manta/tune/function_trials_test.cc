#include <gtest/gtest.h>

#include <filesystem>

#include "manta/base/temporary_folder_internal.h"
#include "manta/tune/function_trials_internal.h"
#include "manta/tune/session.h"

namespace manta::tune {
namespace {

using namespace std::chrono_literals;

class OneFile final : public CheckpointSource {
 public:
  void stage() override {}
  void write(CheckpointFolder& folder) override { folder.write("file", "text"); }
};

void report_files(const Json&) {
  for (int n = 0; n < 3; ++n) tune::report({{"n", n}}, std::make_shared<OneFile>());
}

/// The trials of an experiment, without the thread that would decide about them.
struct Undecided {
  explicit Undecided(const std::string& folder)
      : trials(Trainable(report_files), folder, "n", {}, events) {}

  // The number of the next report; -1 if there is none within the time.
  int64_t next_report(std::chrono::milliseconds time = 60s) {
    auto event = events->pop(Deadline::after(time));
    auto* reported = event ? std::get_if<Reported>(&*event) : nullptr;
    return reported ? reported->index : -1;
  }
  void judge(int attempt, int64_t index) { trials.judge({0, attempt, index, Verdict::kGoOn}); }

  std::shared_ptr<EventQueue> events = std::make_shared<EventQueue>();
  FunctionTrials trials;
};

// Each driver dies before a report that it has committed is in the journal. Whatever they leave, a
// checkpoint is ahead of the journal by at most one report, which the next driver can add.
TEST(FunctionTrialsTest, NoCheckpointIsFurtherAheadOfTheJournalThanOneReport) {
  TemporaryFolder folder;
  auto has_checkpoint = [&](int64_t index) {
    return std::filesystem::exists(folder / ("trial_00000/" + train::checkpoint_name(index)));
  };
  Trial trial{.number = 0, .config = Json::object(), .attempt = 0};
  {
    Undecided first(folder.path());
    first.trials.start(trial);
    EXPECT_EQ(first.next_report(), 0);
    EXPECT_TRUE(has_checkpoint(0));
  }
  trial.attempt = 1;
  Undecided second(folder.path());
  second.trials.start(trial);
  EXPECT_EQ(second.next_report(), 0);     // of the checkpoint
  EXPECT_EQ(second.next_report(1s), -1);  // the trial's own report is held back
  EXPECT_FALSE(has_checkpoint(1));
  second.judge(1, 0);
  EXPECT_EQ(second.next_report(), 1);
  EXPECT_TRUE(has_checkpoint(1));
  second.judge(1, 1);
  EXPECT_EQ(second.next_report(), 2);
}

}  // namespace
}  // namespace manta::tune
