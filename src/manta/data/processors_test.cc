// The processors that this process may use, in a made-up /proc and /sys.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "manta/base/temporary_folder_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/wide_query_internal.h"

namespace manta::data {
namespace {

class ProcessorsTest : public testing::Test {
 protected:
  void SetUp() override { write("proc/meminfo", "MemTotal: 8388608 kB\n"); }
  void write(const std::string& file, const std::string& text) {
    auto path = std::filesystem::path(root_.path()) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  TemporaryFolder root_;
};

TEST_F(ProcessorsTest, TheMachineIsTheLimitIfThereIsNoOther) {
  EXPECT_EQ(default_wide_memory(root_.path()), int64_t{2} << 30);
  EXPECT_GE(all_processors(root_.path()), 1);
}

// The limits of a service or of a pod are those of its own group, not of the root group.
TEST_F(ProcessorsTest, TheProcessesOwnGroupIsTheLimit) {
  write("proc/self/cgroup", "0::/system.slice/job.service\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/system.slice/job.service/memory.max", "1073741824\n");
  write("sys/fs/cgroup/system.slice/job.service/cpu.max", "100000 100000\n");
  EXPECT_EQ(default_wide_memory(root_.path()), int64_t{256} << 20);
  EXPECT_EQ(all_processors(root_.path()), 1);
  write("sys/fs/cgroup/system.slice/job.service/cpu.max", "20000 100000\n");
  EXPECT_EQ(all_processors(root_.path()), 1);
}

TEST_F(ProcessorsTest, AGroupAroundItLimitsIt) {
  write("proc/self/cgroup", "0::/pod/container\n");
  write("sys/fs/cgroup/pod/memory.max", "536870912\n");
  write("sys/fs/cgroup/pod/container/memory.max", "max\n");
  EXPECT_EQ(default_wide_memory(root_.path()), int64_t{128} << 20);
}

TEST_F(ProcessorsTest, GroupsOfTheFirstVersionLimitIt) {
  write("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(default_wide_memory(root_.path()), int64_t{256} << 20);
  EXPECT_EQ(all_processors(root_.path()), 1);
}

}  // namespace
}  // namespace manta::data
