#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "manta/core/init.h"
#include "manta/data/data_test_job_internal.h"

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  if (const char* job = std::getenv(manta::data::kDataJobVariable)) {
    return std::string_view(job) == "fill" ? manta::data::fill_disk()
                                           : manta::data::map_on_every_host();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
