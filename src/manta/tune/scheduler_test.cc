#include "manta/tune/scheduler.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <sstream>

#include "manta/base/error_of_internal.h"

namespace manta::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* const kAshaCases[] = {
#include "manta/tune/expected/asha.inc"
};

// Asks a scheduler by trial, time and value.
class Asked {
 public:
  Asked(const AnyScheduler& scheduler, bool maximize)
      : scheduler_(scheduler.make({"m", maximize})) {}

  bool stops(uint64_t trial, double time, double value) {
    last_[trial] = {{"training_iteration", time}, {"m", value}};
    return scheduler_->on_result({trial, config_}, last_[trial]) == Verdict::kStop;
  }
  void complete(uint64_t trial) { scheduler_->on_complete({trial, config_}, last_[trial]); }

 private:
  const Json config_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<uint64_t, Json> last_;
};

TEST(ASHASchedulerTest, DecidesAsRaysClass) {
  size_t decisions = 0, stops = 0;
  for (const char* text : kAshaCases) {
    std::istringstream in(text);
    ASHAScheduler options;
    std::string mode, event;
    in >> options.reduction_factor >> options.grace_period >> options.max_t >> mode;
    Asked scheduler(options, mode == "max");
    while (in >> event) {
      std::replace(event.begin(), event.end(), ',', ' ');
      std::istringstream fields(event);
      uint64_t trial = 0;
      double time = 0, value = 0;
      bool stop = false;
      fields >> trial >> time >> value >> stop;
      if (time < 0) {
        scheduler.complete(trial);
        continue;
      }
      ASSERT_EQ(scheduler.stops(trial, time, value), stop) << event << " of " << text;
      ++decisions;
      stops += stop;
    }
  }
  EXPECT_GT(decisions, 10'000u);
  EXPECT_GT(stops, 1'000u);
}

TEST(ASHASchedulerTest, NotANumberIsTheWorstValue) {
  for (bool maximize : {false, true}) {
    Asked scheduler(ASHAScheduler{.max_t = 100, .reduction_factor = 2}, maximize);
    EXPECT_FALSE(scheduler.stops(0, 1, 5));
    EXPECT_TRUE(scheduler.stops(1, 1, std::nan("")));
    EXPECT_FALSE(scheduler.stops(2, 1, 5));
    Asked other(ASHAScheduler{.max_t = 100, .reduction_factor = 2}, maximize);
    EXPECT_FALSE(other.stops(0, 1, std::nan(""))) << "nobody has been there before";
    EXPECT_FALSE(other.stops(1, 1, 1e9));
    EXPECT_FALSE(other.stops(2, 1, -1e9));
  }
}

TEST(ASHASchedulerTest, RoundingHidesNoRung) {
  // log(1000) / log(10) is 2.9999999999999996. A rung at 1000 would be seen only at 1000, where
  // every trial stops; so the test uses a rung below it.
  Asked scheduler(ASHAScheduler{.max_t = 1000, .grace_period = 1, .reduction_factor = 10}, true);
  EXPECT_FALSE(scheduler.stops(0, 999, 5));
  EXPECT_TRUE(scheduler.stops(0, 1000, 5));
  EXPECT_TRUE(scheduler.stops(1, 999, 1)) << "of the rung at 100";
}

TEST(ASHASchedulerTest, AReportWithoutTheMetricOrTheTimeDecidesNothing) {
  auto scheduler = AnyScheduler(ASHAScheduler{.max_t = 2}).make({"eval/m", false});
  Json config;
  TrialInfo trial{0, config};
  EXPECT_EQ(scheduler->on_result(trial, {{"training_iteration", 5}}), Verdict::kGoOn);
  EXPECT_EQ(scheduler->on_result(trial, {{"eval", {{"m", 1}}}}), Verdict::kGoOn);
  EXPECT_EQ(scheduler->on_result(trial, {{"training_iteration", 5}, {"eval", {{"m", "a"}}}}),
            Verdict::kGoOn);
  EXPECT_EQ(scheduler->on_result(trial, {{"training_iteration", 5}, {"eval", {{"m", 1}}}}),
            Verdict::kStop);
}

TEST(ASHASchedulerTest, OptionsAreChecked) {
  auto refusal = [](const ASHAScheduler& options) {
    return message_of([&] { AnyScheduler scheduler(options); });
  };
  EXPECT_THAT(refusal({.max_t = 0}), HasSubstr("max_t must be at least grace_period (was 0)"));
  EXPECT_THAT(refusal({.grace_period = 0}), HasSubstr("grace_period must be above 0 (was 0)"));
  EXPECT_THAT(refusal({.reduction_factor = 1}), HasSubstr("reduction_factor must be above 1"));
  EXPECT_THAT(refusal({.reduction_factor = 1.0001}), HasSubstr("at most 1000 rungs"));
  EXPECT_THAT(refusal({.time_attr = ""}), HasSubstr("time_attr"));
}

TEST(SchedulerTest, AreStoredAndRead) {
  for (const AnyScheduler& scheduler :
       {AnyScheduler(), AnyScheduler(ASHAScheduler{.time_attr = "t", .max_t = 7})}) {
    Json json = Json::parse(scheduler.to_json().dump());
    EXPECT_EQ(AnyScheduler::from_json(json, "a file").to_json(), json);
  }
  for (const char* bad : {R"({})", R"({"name": "other"})",
                          R"({"name": "ASHAScheduler", "time_attr": "t", "max_t": 1,
                              "grace_period": 2, "reduction_factor": 4})"}) {
    EXPECT_EQ(error_of([&] { AnyScheduler::from_json(Json::parse(bad), "a file"); }).kind(),
              ErrorKind::kCorrupt)
        << bad;
  }
}

}  // namespace
}  // namespace manta::tune
