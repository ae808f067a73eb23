#include <gtest/gtest.h>

#include <cstdlib>

#include "manta/core/cluster_job_internal.h"
#include "manta/core/init.h"

// Each test of this folder runs in its own driver, with its own workers.
int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  if (const char* job = std::getenv(manta::kJobVariable)) return manta::run_cluster_job(job);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
