#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "manta/base/error_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kGib = 1ll << 30;

// The files of a machine, in a folder of their own.
class Machine {
 public:
  explicit Machine(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) {
      fs::create_directories(fs::path(root_ / name).parent_path());
      std::ofstream(root_ / name) << text;
    }
  }
  std::string root() const { return root_.path(); }

 private:
  TemporaryFolder root_;
};

double allowed_cpus() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

const std::string kMeminfo = "proc/meminfo";
const std::string kGroups = "proc/self/cgroup";
const std::string kEightGib = "MemTotal:        8388608 kB\nMemFree:  1024 kB\n";

TEST(ResourcesTest, CpusAreTheQuotaOrTheAllowedProcessors) {
  double all = allowed_cpus();
  struct Case {
    const char* name;
    std::map<std::string, std::string> files;
    double cpus;
  };
  for (const auto& [name, files, cpus] : std::vector<Case>{
           {"no files", {}, all},
           {"v2, at the mount", {{"sys/fs/cgroup/cpu.max", "150000 100000\n"}}, 1},
           {"v2, a whole number", {{"sys/fs/cgroup/cpu.max", "100000 100000\n"}}, 1},
           {"v2, below one", {{"sys/fs/cgroup/cpu.max", "50000 100000\n"}}, 0.5},
           {"v2, no limit", {{"sys/fs/cgroup/cpu.max", "max 100000\n"}}, all},
           {"v2, more than there is", {{"sys/fs/cgroup/cpu.max", "99900000 100000\n"}}, all},
           {"v2, damaged", {{"sys/fs/cgroup/cpu.max", "?!"}}, all},
           {"v2, own group",
            {{kGroups, "0::/a/b\n"}, {"sys/fs/cgroup/a/b/cpu.max", "25000 100000"}},
            0.25},
           {"v2, the group above is stricter",
            {{kGroups, "0::/a/b\n"},
             {"sys/fs/cgroup/a/b/cpu.max", "50000 100000"},
             {"sys/fs/cgroup/a/cpu.max", "20000 100000"}},
            0.2},
           {"v2, another's group",
            {{kGroups, "0::/a\n"}, {"sys/fs/cgroup/b/cpu.max", "20000 100000"}},
            all},
           {"v1, at the mount",
            {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"},
             {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
            0.5},
           {"v1, no limit",
            {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
             {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
            all},
           {"v1, own group",
            {{kGroups, "5:memory:/other\n4:cpu,cpuacct:/docker/x\n"},
             {"sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "10000"},
             {"sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000"}},
            0.1},
           {"v1, a controller with a similar name",
            {{kGroups, "4:cpuset:/x\n"},
             {"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "10000"},
             {"sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000"}},
            all}}) {
    SCOPED_TRACE(name);
    Machine machine(files);
    EXPECT_DOUBLE_EQ(detect_resources({.memory = 0}, machine.root()).cpus, cpus);
  }
}

TEST(ResourcesTest, MemoryIsTheLimitOrTheMachines) {
  struct Case {
    const char* name;
    std::map<std::string, std::string> files;
    int64_t memory;
  };
  for (const auto& [name, files, memory] : std::vector<Case>{
           {"no files", {}, 0},
           {"meminfo", {{kMeminfo, kEightGib}}, 8 * kGib},
           {"v2", {{kMeminfo, kEightGib}, {"sys/fs/cgroup/memory.max", "1073741824\n"}}, kGib},
           {"v2, no limit", {{kMeminfo, kEightGib}, {"sys/fs/cgroup/memory.max", "max"}}, 8 * kGib},
           {"v2, nested",
            {{kMeminfo, kEightGib},
             {kGroups, "0::/a/b"},
             {"sys/fs/cgroup/a/memory.max", "1073741824"},
             {"sys/fs/cgroup/a/b/memory.max", "2147483648"}},
            kGib},
           {"v1",
            {{kMeminfo, kEightGib},
             {kGroups, "3:memory:/a"},
             {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648"}},
            2 * kGib},
           {"v1, no limit",
            {{kMeminfo, kEightGib},
             {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"}},
            8 * kGib},
           {"only a limit", {{"sys/fs/cgroup/memory.max", "1073741824"}}, kGib}}) {
    SCOPED_TRACE(name);
    Machine machine(files);
    EXPECT_EQ(detect_resources({}, machine.root()).memory, memory);
  }
}

TEST(ResourcesTest, GpusAreWhatTheDriverShows) {
  EXPECT_EQ(detect_resources({}, Machine({}).root()).gpus, 0);
  Machine machine({{"proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: A"},
                   {"proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: B"}});
  EXPECT_EQ(detect_resources({}, machine.root()).gpus, 2);
}

// The cluster has given this process less than the machine has.
TEST(ResourcesTest, WhatAClusterGaveCounts) {
  std::map<std::string, std::string> one_gpu{
      {"proc/driver/nvidia/gpus/0000:01:00.0/information", ""}};
  Machine machine(one_gpu);
  ::setenv("SLURM_CPUS_ON_NODE", "1", 1);
  EXPECT_EQ(detect_resources({}, machine.root()).cpus, 1);
  ::setenv("SLURM_CPUS_ON_NODE", "4096", 1);
  EXPECT_EQ(detect_resources({}, machine.root()).cpus, allowed_cpus());
  ::unsetenv("SLURM_CPUS_ON_NODE");
  for (const auto& [visible, count] :
       std::vector<std::pair<const char*, double>>{{"", 0}, {"3", 1}, {"0,2", 2}, {"1,-1,2", 1}}) {
    ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    EXPECT_EQ(detect_resources({}, machine.root()).gpus, count) << visible;
  }
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(detect_resources({}, machine.root()).gpus, 1);
}

TEST(ResourcesTest, WhatIsGivenIsNotDetected) {
  Machine machine({{kMeminfo, kEightGib}, {"sys/fs/cgroup/cpu.max", "50000 100000"}});
  Resources found = detect_resources({.cpus = 64, .gpus = 8, .memory = 5, .custom = {{"disk", 2}}},
                                     machine.root());
  EXPECT_EQ(found.cpus, 64);
  EXPECT_EQ(found.gpus, 8);
  EXPECT_EQ(found.memory, 5);
  EXPECT_EQ(amount_of(found.custom, "disk"), 2);
  EXPECT_EQ(amount_of(found.custom, "tape"), 0);
  EXPECT_EQ(detect_resources({.cpus = 0}, machine.root()).cpus, 0);
}

TEST(ResourcesTest, ImpossibleMachinesAreRefused) {
  for (const MachineResources& given :
       std::vector<MachineResources>{{.cpus = -1},
                                     {.gpus = 0.5},
                                     {.gpus = 1.5},
                                     {.memory = -1},
                                     {.cpus = std::numeric_limits<double>::infinity()},
                                     {.custom = {{"", 1}}}}) {
    try {
      detect_resources(given);
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("InitOptions::resources"));
    }
  }
}

TEST(ResourcesTest, ThisMachineIsDetected) {
  Resources found = detect_resources();
  EXPECT_GT(found.cpus, 0);
  EXPECT_GT(found.memory, 0);
}

TEST(ResourcesTest, WhatCanBeAsked) {
  for (const Resources& asked :
       std::vector<Resources>{{},
                              {.cpus = 0},
                              {.cpus = 0.0001},
                              {.cpus = 2.5},
                              {.gpus = 0.5},
                              {.gpus = 1},
                              {.gpus = 4},
                              {.memory = std::numeric_limits<int64_t>::max()},
                              {.cpus = 1e12},
                              {.custom = {{"disk", 0}, {"tape", 1.5}}}}) {
    EXPECT_NO_THROW(check_resources(asked, "task 'f'")) << to_string(asked);
  }
}

TEST(ResourcesTest, WhatCannotBeAsked) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Case {
    Resources asked;
    const char* message;
  };
  for (const auto& [asked, message] : std::vector<Case>{
           {{.cpus = -1}, "task 'f' asks for -1 CPU: an amount must be a number from 0 to 1e12"},
           {{.cpus = std::nan("")}, "task 'f' asks for nan CPU"},
           {{.cpus = kInfinity}, "task 'f' asks for inf CPU"},
           {{.cpus = 2e12}, "task 'f' asks for 2000000000000 CPU"},
           {{.cpus = 0.00009}, "the smallest share is 0.0001"},
           {{.gpus = -0.5}, "task 'f' asks for -0.5 GPU"},
           {{.gpus = 1.5}, "task 'f' asks for 1.5 GPU: above 1 the number must be whole"},
           {{.memory = -5}, "task 'f' asks for -5 bytes of memory"},
           {{.custom = {{"disk", -1}}}, "task 'f' asks for -1 disk"},
           {{.custom = {{"disk", kInfinity}}}, "task 'f' asks for inf disk"},
           {{.custom = {{"", 1}}}, "task 'f' asks for a resource without a name"},
           {{.custom = {{"disk", 1}, {"disk", 2}}}, "task 'f' asks for 'disk' twice"}}) {
    SCOPED_TRACE(message);
    try {
      check_resources(asked, "task 'f'");
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST(ResourcesTest, MoreThanTheMachineHasIsImpossible) {
  Resources total{.cpus = 4, .gpus = 1, .memory = kGib, .custom = {{"disk", 2}}};
  for (const Resources& asked : std::vector<Resources>{
           total, {.cpus = 0}, {.cpus = 4}, {.custom = {{"disk", 2}}}, {.custom = {{"tape", 0}}}}) {
    EXPECT_TRUE(is_possible(asked, total)) << to_string(asked);
  }
  for (const Resources& asked : std::vector<Resources>{{.cpus = 4.5},
                                                       {.gpus = 2},
                                                       {.memory = kGib + 1},
                                                       {.custom = {{"disk", 3}}},
                                                       {.custom = {{"tape", 1}}}}) {
    EXPECT_FALSE(is_possible(asked, total)) << to_string(asked);
  }
}

TEST(ResourcesTest, ToString) {
  struct Case {
    Resources resources;
    const char* text;
  };
  for (const auto& [resources, text] :
       std::vector<Case>{{{}, "1 CPU"},
                         {{.cpus = 0}, "nothing"},
                         {{.cpus = 2, .gpus = 0.5, .memory = kGib * 3 / 2, .custom = {{"disk", 1}}},
                          "2 CPU, 0.5 GPU, 1.5 GiB memory, 1 disk"},
                         {{.cpus = 0, .custom = {{"disk", 0}, {"tape", 0.25}}}, "0.25 tape"},
                         {{.cpus = 0, .memory = 1000}, "1000 bytes memory"}}) {
    EXPECT_EQ(to_string(resources), text);
  }
  EXPECT_THAT(to_string({.memory = 10 << 20}), testing::Not(HasSubstr("e+")));
}

}  // namespace
}  // namespace manta
