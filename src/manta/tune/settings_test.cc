#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/tune/settings_internal.h"
#include "manta/tune/space_internal.h"
#include "manta/tune/trainer_trials_internal.h"

namespace manta::tune {
namespace {

using testing::HasSubstr;

TEST(SettingsTest, AreStoredAndRead) {
  Settings settings;
  settings.trainable = "function";
  settings.space = {{"x", uniform(0, 1)}};
  settings.config = {.metric = "m",
                     .mode = "max",
                     .num_samples = 7,
                     .max_concurrent_trials = 3,
                     .scheduler = ASHAScheduler{.max_t = 9},
                     .max_cpu_fraction = 0.5,
                     .seed = UINT64_MAX};
  settings.run.failure_config.max_failures = 2;
  Json json = Json::parse(to_json(settings).dump());
  Settings again = settings_from("f", json, {}, {});
  again.space = space_from("f", json);
  EXPECT_EQ(to_json(again), json);
  EXPECT_EQ(again.config.seed, UINT64_MAX);
  EXPECT_EQ(again.run.failure_config.max_failures, 2);
  EXPECT_THAT(message_of([&] { settings_from("f", json, {}, AnyScheduler()); }),
              HasSubstr("scheduler is stored"));
}

TEST(SettingsTest, CodeOfYourOwnIsNotStored) {
  Settings settings;
  AnyScheduler own("Own", [](const Objective&) { return AnyScheduler().make({}); });
  settings.config.scheduler = own;
  settings.space = {{"x", sample_from([](const Json&, Random&) { return Json(1); })}};
  Json json = to_json(settings);
  EXPECT_THAT(message_of([&] { settings_from("f", json, {}, {}); }),
              HasSubstr("scheduler was one of your own"));
  EXPECT_EQ(settings_from("f", json, {}, own).config.scheduler.name(), "Own");
  EXPECT_THAT(message_of([&] { space_from("f", json); }), HasSubstr("give param_space again"));
}

TEST(SettingsTest, WhatTheTunersRunConfigLeavesAtItsDefaultIsTheTrainers) {
  RunConfig trainer{.name = "mine", .storage_path = "/there"};
  trainer.failure_config.max_failures = 3;
  trainer.checkpoint_config.num_to_keep = 2;
  RunConfig both = run_config_of_trials({.name = "tune", .verbose = false}, trainer);
  EXPECT_EQ(both.name, "tune");
  EXPECT_EQ(both.storage_path, "/there");
  EXPECT_EQ(both.failure_config.max_failures, 3);
  EXPECT_EQ(both.checkpoint_config.num_to_keep, 2);
  EXPECT_FALSE(both.verbose);
  RunConfig tuner;
  tuner.checkpoint_config.num_to_keep = 5;
  tuner.failure_config.max_failures = 1;
  both = run_config_of_trials(tuner, trainer);
  EXPECT_EQ(both.checkpoint_config.num_to_keep, 5);
  EXPECT_EQ(both.failure_config.max_failures, 1);
}

}  // namespace
}  // namespace manta::tune
