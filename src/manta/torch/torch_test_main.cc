#include <gtest/gtest.h>

#include <string_view>

#include "manta/core/init.h"

// Tests of several ranks fork them, which a process with threads should not do: under sanitizers
// the forks may hang. So only the trainer's tests, each run by itself, start the runtime.
bool forks_ranks(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (!argument.starts_with("--gtest_filter=")) continue;
    for (auto trains :
         {"TorchTrainerTest.", "ShardedTrainer.", "TuneTorchTest.", "ToTorchTest.",
          "TorchProfilerTest.", "TorchBackendTest.", "RanksPart.", "RanksThatAreSlow.", "*"}) {
      if (argument.find(trains) != argument.npos) return false;
    }
    return true;
  }
  return false;
}

int main(int argc, char** argv) {
  if (!forks_ranks(argc, argv)) manta::init(argc, argv, {.resources = {.cpus = 2, .gpus = 1}});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
