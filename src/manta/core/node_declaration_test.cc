#include <gmock/gmock.h>

#include <cstdlib>

#include "manta/base/error_internal.h"
#include "manta/core/node_declaration_internal.h"

namespace manta {
namespace {

TEST(NodeDeclaration, IsReadFromTheEnvironment) {
  ::setenv("MANTA_NODE_LABELS", "zone=a,disk=ssd", 1);
  ::setenv("MANTA_NODE_RESOURCES", "cpus=2.5,memory=8e9,license=2", 1);
  EXPECT_THAT(declared_labels(),
              testing::ElementsAre(testing::Pair("zone", "a"), testing::Pair("disk", "ssd")));
  MachineResources declared = declared_resources();
  EXPECT_EQ(declared.cpus, 2.5);
  EXPECT_EQ(declared.gpus, std::nullopt);
  EXPECT_EQ(declared.memory, 8'000'000'000);
  EXPECT_THAT(declared.custom, testing::ElementsAre(testing::Pair("license", 2)));
  for (const char* text : {"cpus", "=2", "cpus=-1", "cpus=two", "cpus=nan", "license=1x"}) {
    ::setenv("MANTA_NODE_RESOURCES", text, 1);
    EXPECT_THROW(declared_resources(), Error) << text;
  }
  ::unsetenv("MANTA_NODE_RESOURCES");
  ::unsetenv("MANTA_NODE_LABELS");
  EXPECT_TRUE(declared_labels().empty());
  EXPECT_EQ(declared_resources().cpus, std::nullopt);
}

}  // namespace
}  // namespace manta
