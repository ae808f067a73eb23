#include <gtest/gtest.h>

#include "manta/core/init.h"

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
