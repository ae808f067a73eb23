// The folder of an experiment that an attacker has damaged or made: whatever is in it, restoring
// works or throws a manta::Error, never waits, and changes nothing outside the folder.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/tune/tuner.h"

namespace manta::tune {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

double twice(const Json& config) { return 2 * config.at("x").get<double>(); }

class HostileExperimentTest : public testing::Test {
 protected:
  HostileExperimentTest() {
    Tuner(twice, {.param_space = {{"x", uniform(0, 1)}, {"g", grid_search({1, 2})}},
                  .tune_config = {.metric = "y",
                                  .mode = "min",
                                  .num_samples = 2,
                                  .scheduler = ASHAScheduler{.max_t = 3}},
                  .run_config = {.name = "e", .storage_path = folder_.path(), .verbose = false}})
        .fit();
  }

  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  Error restore_error() {
    return error_of([&] { Tuner::restore(folder_ / "e", twice).fit(); });
  }

  TemporaryFolder folder_;
};

TEST_F(HostileExperimentTest, DamagedFilesAreNamed) {
  std::string settings = read(folder_ / "e/experiment.json");
  std::string journal = read(folder_ / "e/journal.jsonl");
  for (const char* text : {"", "{}", "[]", "nonsense", "{\"version\": 7}"}) {
    write(folder_ / "e/experiment.json", text);
    Error error = restore_error();
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << text;
    EXPECT_THAT(error.what(), HasSubstr("experiment.json")) << text;
  }
  write(folder_ / "e/experiment.json", settings);
  write(folder_ / "e/journal.jsonl",
        "{\"time\": 1, \"attempt\": 0, \"event\": \"started\", "
        "\"details\": {\"trial\": 0}}\n" +
            journal);
  EXPECT_EQ(restore_error().kind(), ErrorKind::kCorrupt);
  write(folder_ / "e/journal.jsonl", journal + "{\"torn");
  EXPECT_EQ(Tuner::restore(folder_ / "e", twice).fit().size(), 4u) << "a torn line never happened";
  write(folder_ / "e/journal.jsonl", journal.substr(0, journal.size() / 2));
  EXPECT_EQ(Tuner::restore(folder_ / "e", twice).fit().size(), 4u) << "the rest is done again";
}

// Every field of both files: gone, or something else.
TEST_F(HostileExperimentTest, WhateverAFieldHoldsNothingBreaks) {
  const std::string settings = read(folder_ / "e/experiment.json");
  const std::string journal = read(folder_ / "e/journal.jsonl");
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    bool in_journal = round % 2 == 0;
    std::string text = in_journal ? journal : settings;
    size_t at = random() % text.size();
    const std::string kParts[] = {"",      "-1",          "1e999", "null", "[",
                                  "\"x\"", "99999999999", "{}",    "\n"};
    text.replace(at, random() % 6, kParts[random() % std::size(kParts)]);
    write(folder_ / "e/experiment.json", in_journal ? settings : text);
    write(folder_ / "e/journal.jsonl", in_journal ? text : journal);
    try {
      Tuner::restore(folder_ / "e", twice, {.verbose = false}).fit();
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

// Trials of the new experiment would go on from checkpoints of old ones.
TEST_F(HostileExperimentTest, ANewExperimentIsNotBegunAmongTheTrialsOfAnother) {
  fs::remove(folder_ / "e/journal.jsonl");
  fs::create_directory(folder_ / "e/trial_00002");
  Tuner tuner(twice, {.param_space = {{"x", uniform(0, 1)}},
                      .run_config = {.name = "e", .storage_path = folder_.path(), .verbose = 0}});
  Error error = error_of([&] { tuner.fit(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("which has 'trial_00002' of another one"),
                                  HasSubstr("take another RunConfig::name")));
  EXPECT_FALSE(fs::exists(folder_ / "e/journal.jsonl"));
  fs::remove(folder_ / "e/trial_00002");
  EXPECT_EQ(tuner.fit().size(), 1u);
}

TEST_F(HostileExperimentTest, ThereIsNoTimeForAStoreOfAnExperimentInAFolder) {
  EXPECT_THAT(message_of([&] {
                Tuner::restore(folder_ / "e", twice, {.storage_timeout = std::chrono::seconds(1)});
              }),
              HasSubstr("storage_timeout is for experiments at an address"));
}

TEST_F(HostileExperimentTest, LinksAndPipesAreNotFollowed) {
  write(folder_ / "precious", "precious");
  for (const char* name : {"experiment.json", "journal.jsonl"}) {
    std::string path = folder_ / "e" + std::string("/") + name, kept = read(path);
    fs::remove(path);
    fs::create_symlink(folder_ / "precious", path);
    EXPECT_EQ(restore_error().kind(), ErrorKind::kCorrupt) << name;
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(restore_error().kind(), ErrorKind::kCorrupt) << name;
    fs::remove(path);
    write(path, kept);
  }
  EXPECT_EQ(read(folder_ / "precious"), "precious");
}

}  // namespace
}  // namespace manta::tune
