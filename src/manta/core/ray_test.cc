// Runs on a Ray cluster: a head and three nodes, each on its own host.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/core/cluster_job_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/core/ray_cluster_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

// One test for all of it: the cluster takes longer to start than anything here to run.
TEST(RayTest, TasksAndActorsOnEveryNodeAndADrain) {
  std::unique_ptr<NetworkHosts> hosts;
  std::unique_ptr<RayCluster> ray;
  try {
    hosts = std::make_unique<NetworkHosts>(4);
    ray = std::make_unique<RayCluster>(*hosts, 4, MANTA_COUNTERPARTS);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResources) throw;
    GTEST_SKIP() << "a Ray cluster for this test cannot be made here: " << error.what();
  }
  TemporaryFolder folder;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  auto start = [&](const std::string& job, const std::string& cluster,
                   const std::string& python = "") {
    auto variables = RayCluster::environment();
    variables[kJobVariable] = job;
    variables["MANTA_CLUSTER"] = str(cluster, ";python=", python.empty() ? ray->python() : python);
    return std::make_unique<Running>(std::vector<std::string>{hosts->enter(), "n0", self},
                                     variables, folder / job);
  };

  auto hello = start("hello", "auto");
  EXPECT_EQ(hello->exit_code(), 0) << hello->said() << ray->logs();
  EXPECT_THAT(hello->said(), HasSubstr("all is well"));

  auto missing = start("each_host_once", "ray:2;program=/no/such/program");
  EXPECT_NE(missing->exit_code(), 0);
  EXPECT_THAT(missing->said(), HasSubstr("/no/such/program cannot be started there"));

  auto grows = start("grows", "ray:1;max_nodes=3;idle=0.5");
  EXPECT_EQ(grows->exit_code(), 0) << grows->said();

  // An agent's place is free again when the agent has ended, in whatever way.
  auto killed = start("agent_killed", "ray:3");
  EXPECT_EQ(killed->exit_code(), 0) << killed->said();
  {
    auto small = start("gives_two_back", "ray:3;min_nodes=1;idle=0.5");
    ASSERT_TRUE(small->says("ready")) << small->said();
    auto other = start("each_host_once", "ray:2");
    EXPECT_EQ(other->exit_code(), 0) << other->said();
  }

  // As in a Ray client: the private interface that shows drains raises an exception.
  std::string blind = folder / "blind_python";
  std::ofstream(blind) << "#!/bin/sh\n[ \"$1 $2\" = '-u -c' ] || exit 9\nexec " << ray->python()
                       << " -u -c \"import ray._private.state as state\ndef none(*_): raise "
                          "RuntimeError('no such thing here')\n"
                          "state.GlobalState.get_draining_nodes = none\n$3\" \"$4\"\n";
  std::filesystem::permissions(blind, std::filesystem::perms::owner_all);
  auto without_drains = start("each_host_once", "ray:2", blind);
  EXPECT_EQ(without_drains->exit_code(), 0) << without_drains->said();
  std::string said = without_drains->said();
  size_t warning = said.find("drains of its nodes are not seen here (RuntimeError: no such thing");
  EXPECT_NE(warning, std::string::npos) << said;
  EXPECT_EQ(said.find("drains of its nodes", warning + 1), std::string::npos) << said;

  // Another user takes a place as soon as it is found, before an agent has reserved it.
  std::string greedy = folder / "greedy_python";
  std::ofstream(greedy)
      << "#!/bin/sh\n[ \"$1 $2\" = '-u -c' ] || exit 9\nexec " << ray->python()
      << " -u -c \"import ray, ray.util.placement_group, sys\n"
         "module = sys.modules['ray.util.placement_group']\n"
         "remove, took = module.remove_placement_group, []\n"
         "def remove_and_take(group):\n"
         "  place = module.placement_group_table(group)['bundles_to_node_id'][0]\n"
         "  remove(group)\n"
         "  if not took:\n"
         "    where = [{'ray.io/node-id': place}]\n"
         "    took.append(module.placement_group([{'CPU': 2}], "
         "bundle_label_selector=where))\n"
         "    ray.get(took[0].ready())\n"
         "module.remove_placement_group = remove_and_take\n$3\" \"$4\"\n";
  std::filesystem::permissions(greedy, std::filesystem::perms::owner_all);
  auto beaten = start("each_host_once", "ray:2", greedy);
  EXPECT_EQ(beaten->exit_code(), 0) << beaten->said();
  auto beaten_for_good = start("hello", "ray:3;wait=8", greedy);
  EXPECT_NE(beaten_for_good->exit_code(), 0);
  EXPECT_THAT(beaten_for_good->said(), HasSubstr("2 of 3 nodes have joined in 8 s"));
  EXPECT_THAT(beaten_for_good->said(), HasSubstr("was taken by somebody else before it was held"));

  auto drain = start("drained_by_others", "ray:3");
  ASSERT_TRUE(drain->says("ready")) << drain->said() << ray->logs();
  Running request({hosts->enter(), "n0", ray->python(), "-c",
                   "import ray; from ray.scripts.scripts import main\n"
                   "import sys\n"
                   "ray.init(address='auto', log_to_driver=False)\n"
                   "node = [n['NodeID'] for n in ray.nodes() if n['NodeManagerAddress'] == '" +
                       NetworkHosts::address(2) +
                       "'][0]\n"
                       "sys.argv = ['ray', 'drain-node', '--node-id', node, '--reason', "
                       "'DRAIN_NODE_REASON_PREEMPTION', '--reason-message', 'a test', "
                       "'--deadline-remaining-seconds', '300']\n"
                       "main()\n"},
                  RayCluster::environment(), folder / "request");
  EXPECT_EQ(request.exit_code(), 0) << request.said();
  EXPECT_EQ(drain->exit_code(), 0) << drain->said();

  // On n1 or n3, because n2 drains.
  auto moves = start("moves", "ray:1");
  ASSERT_TRUE(moves->says("on n")) << moves->said();
  hosts->crash(moves->said().find("on n1.") != std::string::npos ? 1 : 3);
  EXPECT_EQ(moves->exit_code(), 0) << moves->said();
}

TEST(RaySourceTest, AnInterpreterWithoutRayIsAnErrorThatSaysSo) {
  TemporaryFolder folder;
  Running driver({std::filesystem::read_symlink("/proc/self/exe")},
                 {{kJobVariable, "hello"},
                  {"MANTA_CLUSTER", "ray:2;python=/usr/bin/python3;address=127.0.0.1"}},
                 folder / "driver");
  EXPECT_NE(driver.exit_code(), 0);
  EXPECT_THAT(driver.said(), HasSubstr("/usr/bin/python3 has no Ray"));
  EXPECT_THAT(driver.said(), HasSubstr("name another interpreter with ;python="));
}

TEST(RaySourceTest, AnInterpreterThatIsNotThereIsAnErrorThatSaysSo) {
  TemporaryFolder folder;
  Running driver({std::filesystem::read_symlink("/proc/self/exe")},
                 {{kJobVariable, "hello"},
                  {"MANTA_CLUSTER", "ray:2;python=/no/such/python;address=127.0.0.1"}},
                 folder / "driver");
  EXPECT_NE(driver.exit_code(), 0);
  EXPECT_THAT(driver.said(), HasSubstr("starting '/no/such/python' to ask Ray for nodes"));
}

}  // namespace
}  // namespace manta
