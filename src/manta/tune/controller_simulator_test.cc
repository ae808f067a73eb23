// The controller in a simulated world: trials report, end, fail and are interrupted in any order,
// and the driver is killed after any action; then another goes on from the journal. Whatever
// happens, every trial is done once, and decisions that were noted are obeyed.

#include <gtest/gtest.h>

#include <random>

#include "manta/base/error_internal.h"
#include "manta/tune/controller_internal.h"
#include "manta/tune/space_internal.h"
#include "manta/tune/trial_json_internal.h"

namespace manta::tune {
namespace {

struct World {
  explicit World(uint64_t seed) : random(seed) {
    samples = 1 + pick(8);
    options.room.total.cpus = static_cast<double>(1 + pick(4));
    options.room.max_concurrent = 1 + pick(5);
    options.max_failures = pick(3);
    for (int i = 0; i < samples; ++i) lengths.push_back(pick(6));
    problem = {{{"x", uniform(0, 1)}, {"g", grid_search({1, 2})}}, {"m", false}, samples, seed};
    scheduler = pick(2) == 0 ? AnyScheduler()
                             : AnyScheduler(ASHAScheduler{.max_t = 5, .reduction_factor = 2});
  }

  int pick(int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); }

  std::mt19937_64 random;
  int samples;
  Controller::Options options;
  std::vector<int> lengths;  // how many reports each trial makes
  SearchProblem problem;
  AnyScheduler scheduler;

  // The state that survives the driver.
  std::vector<Note> journal;
  std::map<uint64_t, int> checkpoint;  // the last report that has one
  std::map<uint64_t, int> completions, results;
  std::map<uint64_t, bool> told_to_stop;  // the driver had acted on it
  std::vector<Json> configs;
  int kills = 0, decisions = 0;
};

// One driver's life.
class Life {
 public:
  explicit Life(World& world)
      : world_(world),
        searcher_(AnySearcher().make(world.problem)),
        scheduler_(world.scheduler.make(world.problem.objective)),
        controller_(world.options, *searcher_, *scheduler_) {
    for (const Note& note : world.journal) {
      check_event("a line", note.event, note.details);
      controller_.replay(note.attempt, note.event, note.details);
    }
  }

  // True when the experiment has ended; false if the driver died.
  bool run() {
    if (!perform(controller_.begin())) return false;
    for (int steps = 0; !controller_.ended(); ++steps) {
      if (steps > 10'000) {
        ADD_FAILURE() << "it does not end";
        return true;
      }
      if (!perform(controller_.handle(next_event()))) return false;
    }
    return !interrupted_;
  }

 private:
  struct Running {
    int attempt = 0;
    int next_report = 0;
    bool waits = false;  // waits for a verdict
    bool ending = false, interrupted = false;
  };

  Event next_event() {
    std::vector<Event> possible;
    for (const Suggested& each : suggested_) possible.push_back(each);
    for (auto& [number, running] : running_) {
      if (running.interrupted) {
        possible.push_back(TrialEnded{number, running.attempt, RunOutcome::kInterrupted});
      } else if (!running.waits) {
        int length = world_.lengths[number % world_.lengths.size()];
        if (running.ending || running.next_report >= length) {
          possible.push_back(TrialEnded{number, running.attempt});
        } else {
          double value = static_cast<double>(number * 31 % 7) + running.next_report;
          possible.push_back(Reported{number,
                                      running.attempt,
                                      running.next_report,
                                      {{"m", value}},
                                      1.0,
                                      running.next_report % 2 == 0});
        }
      }
      if (world_.pick(10) == 0) {
        possible.push_back(TrialEnded{number, running.attempt, RunOutcome::kFailed,
                                      ErrorKind::kUserCode, "it broke"});
      }
    }
    EXPECT_FALSE(possible.empty()) << "it waits for nothing";
    if (possible.empty() || world_.pick(60) == 0) return Interrupted{};
    Event event = possible[static_cast<size_t>(world_.pick(static_cast<int>(possible.size())))];
    if (std::holds_alternative<Suggested>(event)) suggested_.clear();
    if (auto* report = std::get_if<Reported>(&event)) {
      running_[report->trial].waits = true;
      if (report->has_checkpoint)
        world_.checkpoint[report->trial] = static_cast<int>(report->index);
    }
    if (auto* ended = std::get_if<TrialEnded>(&event)) running_.erase(ended->trial);
    return event;
  }

  bool perform(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (world_.kills < 10 && world_.pick(25) == 0) {
        ++world_.kills;
        return false;
      }
      std::visit([&](const auto& each) { perform(each); }, action);
    }
    EXPECT_LE(static_cast<double>(running_.size()), world_.options.room.total.cpus);
    EXPECT_LE(running_.size(), static_cast<size_t>(world_.options.room.max_concurrent));
    return true;
  }

  void perform(const Suggest& action) {
    Suggested suggested{action.number, {}};
    if (auto assignment = searcher_->suggest(action.number)) {
      Json config = resolve(world_.problem.space, *assignment);
      // The same number gives the same suggestion in every life.
      if (action.number < world_.configs.size()) {
        EXPECT_EQ(world_.configs[action.number], config);
      } else {
        world_.configs.push_back(config);
      }
      suggested.suggestion = {*assignment, config, {Resources{.cpus = 1}}};
    }
    suggested_ = {suggested};
  }
  void perform(const StartTrial& action) {
    EXPECT_FALSE(running_.contains(action.trial)) << "it runs twice";
    EXPECT_FALSE(world_.completions.contains(action.trial)) << "it had ended";
    EXPECT_FALSE(world_.told_to_stop[action.trial]) << "it was told to stop";
    Running running;
    running.attempt = action.attempt;
    auto from = world_.checkpoint.find(action.trial);
    // It goes on from its checkpoint. If the driver died before it had noted that report, the trial
    // first reports it again.
    auto noted = static_cast<int>(controller_.trials()[action.trial].reports.size());
    if (from != world_.checkpoint.end()) running.next_report = std::min(from->second + 1, noted);
    running_[action.trial] = running;
  }
  void perform(const Judge& action) {
    ++world_.decisions;
    bool stop = action.verdict == Verdict::kStop;
    EXPECT_GT(world_.results[action.trial], action.index) << "on record before it is acted on";
    world_.told_to_stop[action.trial] = world_.told_to_stop[action.trial] || stop;
    auto found = running_.find(action.trial);
    if (found == running_.end()) return;
    found->second.waits = false;
    found->second.ending = stop;
    ++found->second.next_report;
  }
  void perform(const InterruptTrial& action) {
    auto found = running_.find(action.trial);
    if (found != running_.end()) found->second.interrupted = true;
  }
  void perform(const Note& note) {
    if (note.event == kResult) {
      EXPECT_EQ(note.details.at("index"),
                world_.results[note.details.at("trial").get<uint64_t>()]++)
          << "each report once, in order";
    }
    world_.journal.push_back(note);
    if (note.event == kEnded && !note.details.at("retry").get<bool>())
      ++world_.completions[note.details.at("trial").get<uint64_t>()];
  }
  void perform(const End& end) {
    EXPECT_TRUE(running_.empty());
    interrupted_ = end.interrupted;
  }

  World& world_;
  std::unique_ptr<Searcher> searcher_;
  std::unique_ptr<Scheduler> scheduler_;
  Controller controller_;
  std::vector<Suggested> suggested_;
  std::map<uint64_t, Running> running_;
  bool interrupted_ = false;
};

class TuneSimulatorTest : public testing::TestWithParam<uint64_t> {};

TEST_P(TuneSimulatorTest, ManyOrdersOfEventsAndKills) {
  constexpr uint64_t kOrders = 1'000;
  int kills = 0, decisions = 0;
  for (uint64_t seed = GetParam() * kOrders; seed < (GetParam() + 1) * kOrders; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    World world(seed);
    int lives = 1;
    while (!Life(world).run() && lives < 1000) ++lives;
    ASSERT_LT(lives, 1000) << "it never ends";
    auto trials = static_cast<uint64_t>(world.samples) * 2;  // two points of the grid
    ASSERT_EQ(world.completions.size(), trials) << "a trial was lost";
    for (const auto& [trial, count] : world.completions)
      ASSERT_EQ(count, 1) << "trial " << trial << " was completed twice";
    kills += world.kills;
    decisions += world.decisions;
    if (HasFailure()) return;
  }
  EXPECT_GT(kills, 1000);
  EXPECT_GT(decisions, 2'000);
}

INSTANTIATE_TEST_SUITE_P(Parts, TuneSimulatorTest, testing::Range<uint64_t>(0, 6));

}  // namespace
}  // namespace manta::tune
