// Runs on hosts that are reached by ssh, with OpenSSH's own server on each.

#include <gmock/gmock.h>

#include <filesystem>

#include "manta/core/cluster_job_internal.h"
#include "manta/core/ssh_hosts_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

class SshTest : public testing::Test {
 protected:
  void make_hosts(int with_server) {
    try {
      hosts_ = std::make_unique<NetworkHosts>(4);
      ssh_ = std::make_unique<SshHosts>(*hosts_, with_server, MANTA_SSHD);
    } catch (const Error& error) {
      GTEST_SKIP() << "hosts with ssh for this test cannot be made here: " << error.what();
    }
  }
  std::unique_ptr<Running> start(const std::string& job) {
    std::string cluster = str("hosts:n1,n2,n3;address=", NetworkHosts::address(0),
                              ";command=", ssh_->command(), " env MANTA_NODE_RESOURCES=cpus=2");
    return std::make_unique<Running>(
        std::vector<std::string>{hosts_->enter(), "n0",
                                 std::filesystem::read_symlink("/proc/self/exe")},
        std::map<std::string, std::string>{{kJobVariable, job}, {"MANTA_CLUSTER", cluster}},
        folder_ / "driver.out");
  }

  TemporaryFolder folder_;
  std::unique_ptr<NetworkHosts> hosts_;
  std::unique_ptr<SshHosts> ssh_;
};

TEST_F(SshTest, TasksAndActorsOnEveryHost) {
  make_hosts(4);
  if (IsSkipped()) return;
  auto driver = start("hello");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said() << ssh_->logs();
  EXPECT_THAT(driver->said(), HasSubstr("all is well"));
}

TEST_F(SshTest, AHostThatSshDoesNotReachIsNamed) {
  make_hosts(3);  // n3 has no server
  if (IsSkipped()) return;
  auto driver = start("hello");
  EXPECT_NE(driver->exit_code(), 0);
  EXPECT_THAT(driver->said(), HasSubstr("n3"));
  EXPECT_THAT(driver->said(), HasSubstr("Connection refused"));
}

}  // namespace
}  // namespace manta
