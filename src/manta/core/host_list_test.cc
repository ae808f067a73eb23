#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/core/host_list_internal.h"

namespace manta {
namespace {

// The expected values are those of `scontrol show hostnames` of Slurm 22.05.
TEST(HostList, IsReadAsSlurmReadsIt) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"n1", {"n1"}},
      {"n1,n2", {"n1", "n2"}},
      {"n[1-3]", {"n1", "n2", "n3"}},
      {"n[1-2,5]", {"n1", "n2", "n5"}},
      {"n[08-11]", {"n08", "n09", "n10", "n11"}},
      {"gpu[001-002],login", {"gpu001", "gpu002", "login"}},
      {"r[1-2]n[1-2]", {"r1n1", "r1n2", "r2n1", "r2n2"}},
      {"n[9-10]-ib", {"n9-ib", "n10-ib"}},
      {"", {}},
  };
  for (const auto& [list, hosts] : cases) {
    EXPECT_THAT(expand_host_list(list), testing::ElementsAreArray(hosts)) << list;
  }
}

TEST(HostList, NonsenseIsRefused) {
  for (const char* list : {"n[1-", "n1]", "n[]", "n[a]", "n[3-1]", "n[1-2]n[", ",n1",
                           "n[1-9999999]", "n[1-1000]m[1-1000]", "n[1--2]"}) {
    EXPECT_THROW(expand_host_list(list), Error) << list;
  }
}

}  // namespace
}  // namespace manta
