// Runs on a Slurm cluster: a controller and three nodes, each on its own host.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/core/cluster_job_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/core/slurm_cluster_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

class SlurmTest : public testing::Test {
 protected:
  void SetUp() override { make_cluster(4, 300); }
  void make_cluster(int count, int node_timeout_s) {
    slurm_.reset();
    hosts_.reset();
    try {
      hosts_ = std::make_unique<NetworkHosts>(count);
      slurm_ = std::make_unique<SlurmCluster>(*hosts_, count, node_timeout_s);
    } catch (const Error& error) {
      GTEST_SKIP() << "a Slurm cluster for this test cannot be made here: " << error.what();
    }
  }

  static std::string self() { return std::filesystem::read_symlink("/proc/self/exe"); }

  // A command on n0, with the job in its environment.
  std::unique_ptr<Running> start(std::vector<std::string> words, const std::string& job,
                                 const std::string& cluster,
                                 const std::string& output = "driver.out") {
    auto variables = slurm_->environment();
    variables[kJobVariable] = job;
    variables["MANTA_CLUSTER"] = cluster;
    words.insert(words.begin(), {hosts_->enter(), "n0"});
    return std::make_unique<Running>(words, variables, folder_ / output);
  }
  // The driver, outside an allocation of three nodes.
  std::unique_ptr<Running> start_salloc(const std::string& job, const std::string& cluster) {
    return start({"salloc", "-N3", "--exclusive", self()}, job, cluster);
  }

  TemporaryFolder folder_;
  std::unique_ptr<NetworkHosts> hosts_;
  std::unique_ptr<SlurmCluster> slurm_;
};

TEST_F(SlurmTest, TasksAndActorsOnEveryNodeOfAnAllocation) {
  auto driver = start_salloc("hello", "slurm");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said() << slurm_->logs();
  EXPECT_THAT(driver->said(), HasSubstr("all is well"));
}

TEST_F(SlurmTest, TheDriverOfABatchScriptIsOnANodeOfItsOwn) {
  std::string output = folder_ / "batch.out";
  auto driver =
      start({"sbatch", "--wait", "-N3", "--exclusive", "--output=" + output, "--wrap=" + self()},
            "each_host_once", "auto");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  std::ifstream in(output);
  std::string said((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(said, HasSubstr("all is well"));
}

TEST_F(SlurmTest, PreemptionDrainsAndWhatRunsGoesOn) {
  auto driver = start_salloc("preempted", "slurm");
  ASSERT_TRUE(driver->says("ready")) << driver->said() << slurm_->logs();
  auto preempt = std::make_unique<Running>(
      std::vector<std::string>{hosts_->enter(), "n0", "scancel", "--signal=TERM", "--state=RUNNING",
                               "--user=root"},
      slurm_->environment(), folder_ / "scancel.out");
  EXPECT_EQ(preempt->exit_code(), 0) << preempt->said();
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("all is well"));
}

// Within SlurmdTimeout: a node that Slurm has given up does not belong to the job any more.
TEST_F(SlurmTest, ANodeOfAnAllocationThatCrashesAndComesBackIsReplaced) {
  auto driver =
      start({"salloc", "--no-kill", "-N3", "--exclusive", self()}, "replaced", "slurm;grow_wait=5");
  ASSERT_TRUE(driver->says("ready")) << driver->said() << slurm_->logs();
  hosts_->crash(2);
  slurm_->restart(2);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said() << slurm_->logs();
}

// After SlurmdTimeout the node does not belong to the job any more, and no step can be started
// there.
TEST_F(SlurmTest, ANodeThatSlurmHasGivenUpIsReplacedByAJob) {
  make_cluster(5, 3);
  if (IsSkipped()) return;
  auto driver = start({"salloc", "--no-kill", "-N3", "--exclusive", "--nodelist=n[1-3]", self()},
                      "given_up", "slurm");
  ASSERT_TRUE(driver->says("ready")) << driver->said() << slurm_->logs();
  hosts_->crash(2);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said() << slurm_->logs();
  EXPECT_THAT(driver->said(), HasSubstr("Slurm has given up node n2, and has taken it out of job"));
}

TEST_F(SlurmTest, JobsComeAndGoByNeed) {
  auto driver = start({self()}, "grows", "slurm:1;max_nodes=3;cpus=2;idle=0.5");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said() << slurm_->logs();
}

TEST_F(SlurmTest, JobsThatWaitAreNotAskedForAgainAndGoWithTheNeed) {
  // Another user has two of the three nodes.
  auto others =
      start({"salloc", "-N2", "--exclusive", "sh", "-c", "echo granted; sleep 300"}, "", "");
  ASSERT_TRUE(others->says("granted")) << others->said();
  auto driver = start({self()}, "asks_for_what_it_needs", "slurm:1;max_nodes=3;cpus=2;grow_wait=1",
                      "waits.out");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said() << slurm_->logs();
}

TEST_F(SlurmTest, ThisProgramCanBeCopiedToTheNodes) {
  std::string copies = folder_ / "copies";
  std::filesystem::create_directories(copies);
  auto driver = start_salloc("copied", "slurm;args=--bcast=" + copies + "/");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said() << slurm_->logs();
}

TEST_F(SlurmTest, AProgramThatIsNotThereIsAnErrorThatSaysSo) {
  auto driver = start_salloc("hello", "slurm;program=/no/such/program");
  EXPECT_NE(driver->exit_code(), 0);
  EXPECT_THAT(driver->said(), HasSubstr("srun, which starts its agent, exited with code"));
  EXPECT_THAT(driver->said(), HasSubstr("/no/such/program"));
}

TEST_F(SlurmTest, ACopyForEachTaskIsRefused) {
  auto driver = start({"srun", "-N3", self()}, "hello", "slurm");
  EXPECT_NE(driver->exit_code(), 0);
  EXPECT_THAT(driver->said(), HasSubstr("srun has started this program 3 times"));
}

// Without Slurm: a stand-in for srun.
class SlurmSourceTest : public testing::Test {
 protected:
  // The driver of a job on this machine and two that do not exist.
  std::unique_ptr<Running> start(const std::string& srun, const std::string& cluster,
                                 std::map<std::string, std::string> more = {}) {
    std::string folder = folder_ / "bin";
    std::filesystem::create_directories(folder);
    if (!srun.empty()) {
      std::ofstream(folder + "/srun") << "#!/bin/sh\n" << srun << "\n";
      std::filesystem::permissions(folder + "/srun", std::filesystem::perms::owner_all);
    }
    std::map<std::string, std::string> variables{
        {"PATH", folder + ":/usr/bin:/bin"}, {kJobVariable, "hello"},
        {"MANTA_CLUSTER", cluster},          {"SLURM_JOB_ID", "7"},
        {"SLURM_JOB_NODELIST", "n[1-3]"},    {"SLURMD_NODENAME", "n2"}};
    variables.merge(more);
    return std::make_unique<Running>(
        std::vector<std::string>{std::filesystem::read_symlink("/proc/self/exe")}, variables,
        folder_ / "driver.out");
  }
  TemporaryFolder folder_;
};

TEST_F(SlurmSourceTest, SrunThatWaitsForEverIsGivenUp) {
  auto driver = start("echo queued and waiting for resources; exec sleep 100",
                      "slurm;address=127.0.0.1;wait=0.5");
  EXPECT_NE(driver->exit_code(), 0);
  EXPECT_THAT(driver->said(), HasSubstr("0 of 2 nodes have joined in 0.5 s"));
  EXPECT_THAT(driver->said(), HasSubstr("queued and waiting for resources"));
}

TEST_F(SlurmSourceTest, TheDriversOwnNodeGetsNoAgent) {
  auto driver = start("echo \"$@\"; exit 3", "slurm;address=127.0.0.1;args=--mem=0 -q high");
  EXPECT_NE(driver->exit_code(), 0);
  EXPECT_THAT(driver->said(), HasSubstr("--export=ALL,MANTA_NODE=stdin --mem=0 -q high /"));
  EXPECT_THAT(driver->said(), HasSubstr("--overlap -N2 -n2 --exclude=n2 "));
}

TEST_F(SlurmSourceTest, ArgumentsThatTakeTheAgentsVariableAwayAreRefused) {
  auto driver = start("exit 3", "slurm;address=127.0.0.1;args=--mem=0 --export=NONE");
  EXPECT_NE(driver->exit_code(), 0);
  EXPECT_THAT(driver->said(), HasSubstr("cluster option 'args' has '--export=NONE'"));
}

// Outside an allocation, the output of Slurm's commands shows at which address the cluster reaches
// this machine.
TEST(SlurmHosts, AreNodesThenControllers) {
  using testing::ElementsAre;
  const std::string config =
      "Configuration data as of 2026-01-01T00:00:00\n"
      "SlurmctldDebug          = info\n"
      "SlurmctldHost[0]        = head(10.0.0.1)\n"
      "SlurmctldHost[1]        = spare\n"
      "SlurmctldLogFile        = /var/log/slurmctld.log\n";
  EXPECT_THAT(slurm_hosts("10.0.0.7\nn8\n", config),
              ElementsAre("10.0.0.7", "n8", "10.0.0.1", "spare"));
  EXPECT_THAT(slurm_hosts("", "SlurmctldHost[0]        = (null)\n"), ElementsAre());
  EXPECT_THAT(slurm_hosts("", ""), ElementsAre());
  std::string many;
  for (int i = 0; i < 5000; ++i) many += str("n", i, "\n");
  EXPECT_LT(slurm_hosts(many, config).size(), 100u);
  EXPECT_EQ(slurm_hosts(many, config).back(), "spare");
}

TEST(FoundCluster, IsTheOneThatTheProgramWasStartedIn) {
  ::unsetenv("SLURM_JOB_ID");
  ::unsetenv("RAY_ADDRESS");
  EXPECT_EQ(found_cluster("auto"), "");
  EXPECT_EQ(found_cluster("hosts:n1"), "hosts:n1");
  EXPECT_EQ(found_cluster(""), "");
  ::setenv("SLURM_JOB_ID", "7", 1);
  EXPECT_EQ(found_cluster("auto"), "slurm");
  EXPECT_EQ(found_cluster("auto;wait=60"), "slurm;wait=60");
  EXPECT_EQ(found_cluster("hosts:n1"), "hosts:n1");
  ::unsetenv("SLURM_JOB_ID");
  ::setenv("RAY_ADDRESS", "10.0.0.5:6379", 1);
  EXPECT_EQ(found_cluster("auto;wait=60"), "ray;wait=60");
  ::unsetenv("RAY_ADDRESS");
}

}  // namespace
}  // namespace manta
