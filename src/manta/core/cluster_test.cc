// Runs on several hosts: network namespaces, with a driver on the first and agents on the others.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>

#include "manta/base/eventually_internal.h"
#include "manta/core/cluster_job_internal.h"
#include "manta/core/cluster_options_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/core/patience_internal.h"
#include "manta/core/running_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/tls_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;

// Three times the 10 seconds of fence_after.
constexpr std::chrono::seconds kFencePatience{30};

class ClusterTest : public testing::Test {
 protected:
  void make_hosts(int count) {
    try {
      hosts_ = std::make_unique<NetworkHosts>(count);
    } catch (const Error& error) {
      GTEST_SKIP() << "hosts for this test cannot be made here: " << error.what();
    }
  }

  static std::string self() { return std::filesystem::read_symlink("/proc/self/exe"); }

  // Begins the job on n0, with agents on the others.
  std::unique_ptr<Running> start(const std::string& job, const std::string& hosts,
                                 const std::string& options = "") {
    return start_driver(job, str("hosts:", hosts, ";command=", hosts_->enter(),
                                 " {host};address=", NetworkHosts::address(0), options));
  }
  std::unique_ptr<Running> start_driver(const std::string& job, const std::string& cluster) {
    return std::make_unique<Running>(
        std::vector<std::string>{hosts_->enter(), "n0", self()},
        std::map<std::string, std::string>{{kJobVariable, job}, {"MANTA_CLUSTER", cluster}},
        folder_ / "driver.out");
  }

  // Its agent has not heard the driver for 10 seconds (fence_after), and has ended all processes.
  void expect_cut_off_host_ends(int host) {
    EXPECT_TRUE(eventually([&] { return hosts_->processes(host).empty(); }, kFencePatience))
        << "n" << host;
  }
  // Nothing is left running on any host.
  void expect_empty(int count) {
    for (int host = 0; host < count; ++host) {
      EXPECT_TRUE(eventually([&] { return hosts_->processes(host).empty(); })) << "n" << host;
    }
  }

  void run(const std::string& job, const std::string& options = "") {
    make_hosts(4);
    if (IsSkipped()) return;
    auto driver = start(job, "n1,n2,n3", options);
    EXPECT_EQ(driver->exit_code(), 0) << driver->said();
    EXPECT_THAT(driver->said(), HasSubstr("all is well"));
    expect_empty(4);
  }

  TemporaryFolder folder_;
  std::unique_ptr<NetworkHosts> hosts_;
};

TEST_F(ClusterTest, TasksAndActorsOnEveryHost) { run("hello"); }
TEST_F(ClusterTest, LargeObjectsBetweenHosts) { run("objects"); }
TEST_F(ClusterTest, LargeObjectsThatAreNotEncrypted) { run("objects", ";encrypt_objects=no"); }
TEST_F(ClusterTest, LogFilesOfTheDriversMachine) { run("logs"); }
TEST_F(ClusterTest, AStrangerIsRefused) { run("strangers"); }
TEST_F(ClusterTest, AKilledWorker) { run("killed_worker"); }
TEST_F(ClusterTest, AHostThatIsToBeTakenAway) { run("draining", ";replace=no"); }
TEST_F(ClusterTest, AHostThatIsTakenAwayAndComesBack) { run("drained_and_replaced"); }

TEST_F(ClusterTest, ACrashedHost) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("lost_host", "n1,n2", ";replace=no");
  ASSERT_TRUE(driver->says("stuck on n2") && driver->says("ready")) << driver->said();
  hosts_->crash(2);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("node n2 is lost"));
  expect_empty(3);
}

TEST_F(ClusterTest, AHostThatIsCutOffSilently) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("lost_host", "n1,n2", ";replace=no");
  ASSERT_TRUE(driver->says("stuck on n2") && driver->says("ready")) << driver->said();
  hosts_->cut(2);
  expect_cut_off_host_ends(2);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("node n2 is lost"));
  expect_empty(3);
}

// Its messages still arrive; only its answers would show that it hears.
TEST_F(ClusterTest, AHostThatDoesNotHearTheDriver) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("lost_host", "n1,n2", ";replace=no");
  ASSERT_TRUE(driver->says("stuck on n2") && driver->says("ready")) << driver->said();
  hosts_->cut_one_way(0, 2);
  expect_cut_off_host_ends(2);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("node n2 is lost"));
  expect_empty(3);
}

TEST_F(ClusterTest, AHostThatTheDriverDoesNotHear) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("lost_host", "n1,n2", ";replace=no");
  ASSERT_TRUE(driver->says("stuck on n2") && driver->says("ready")) << driver->said();
  hosts_->cut_one_way(2, 0);
  expect_cut_off_host_ends(2);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("node n2 is lost"));
  expect_empty(3);
}

TEST_F(ClusterTest, AHostThatIsReachedAgainIsNoGhost) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("healed", "n1,n2", ";fence_after=3600");
  ASSERT_TRUE(driver->says("ready")) << driver->said();
  hosts_->cut(2);
  ASSERT_TRUE(driver->says("node n2 is lost")) << driver->said();
  hosts_->heal();
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  expect_empty(3);
}

TEST_F(ClusterTest, ANetworkThatLosesPackets) {
  make_hosts(3);
  if (IsSkipped()) return;
  hosts_->lose_packets(1, 20);
  auto driver = start("objects", "n1,n2");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  expect_empty(3);
}

TEST_F(ClusterTest, EachHostListensOnOneAddressAndNothingElse) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("busy_everywhere", "n1,n2");
  ASSERT_TRUE(driver->says("ready")) << driver->said();
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(hosts_->listeners(host),
                testing::ElementsAre(testing::StartsWith(NetworkHosts::address(host) + ":")));
  }
  hosts_->crash(0);
  expect_empty(3);
}

TEST_F(ClusterTest, APeerWithTheTokenThatSendsNonsenseIsDropped) {
  make_hosts(2);
  if (IsSkipped()) return;
  std::string file = folder_ / "run.join";
  auto driver = start_driver(
      "nonsense", str("join:1;replace=no;file=", file, ";address=", NetworkHosts::address(0)));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(file); })) << driver->said();
  Running agent({hosts_->enter(), "n1", self()}, {{kNodeVariable, "file:" + file}}, folder_ / "n1");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_EQ(agent.exit_code(), 0) << agent.said();
  expect_empty(2);
}

TEST_F(ClusterTest, AKilledDriverLeavesNothing) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("lost_host", "n1,n2");
  ASSERT_TRUE(driver->says("ready")) << driver->said();
  for (pid_t pid : hosts_->processes(0)) ::kill(pid, SIGKILL);
  expect_empty(3);
}

TEST_F(ClusterTest, NodesThatJoinByThemselves) {
  make_hosts(3);
  if (IsSkipped()) return;
  std::string file = folder_ / "run.join";
  auto driver =
      start_driver("strangers", str("join:2;file=", file, ";address=", NetworkHosts::address(0)));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(file); })) << driver->said();
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::vector<std::unique_ptr<Running>> agents;
  for (const char* host : {"n1", "n2"}) {
    agents.push_back(std::make_unique<Running>(
        std::vector<std::string>{hosts_->enter(), host, self()},
        std::map<std::string, std::string>{{kNodeVariable, "file:" + file}}, folder_ / host));
  }
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  for (auto& agent : agents) EXPECT_EQ(agent->exit_code(), 0) << agent->said();
  EXPECT_FALSE(std::filesystem::exists(file));
  expect_empty(3);
}

TEST_F(ClusterTest, ALostHostIsReplaced) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("replaced", "n1,n2");
  ASSERT_TRUE(driver->says("ready")) << driver->said();
  hosts_->crash(2);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  expect_empty(3);
}

// Like a host that reboots: it cannot be reached for a while, and nothing tells when it is back.
TEST_F(ClusterTest, AHostThatIsAwayForLongIsAskedForUntilItIsBack) {
  make_hosts(3);
  if (IsSkipped()) return;
  std::string enter = folder_ / "enter", off = folder_ / "off", tries = folder_ / "tries";
  std::ofstream(enter) << "#!/bin/sh\nif [ $1 = n2 ] && [ -e " << off << " ]; then\n  echo x >> "
                       << tries << "\n  echo n2 is switched off\n  exit 255\nfi\nexec "
                       << hosts_->enter() << " \"$@\"\n";
  std::filesystem::permissions(enter, std::filesystem::perms::owner_all);
  auto driver = start_driver("away_for_long", str("hosts:n1,n2;command=", enter,
                                                  " {host};address=", NetworkHosts::address(0)));
  ASSERT_TRUE(driver->says("ready")) << driver->said();
  std::ofstream(off).close();
  hosts_->crash(2);
  // After 0.5 + 1 + 2 + 4 seconds; the next try, which succeeds, is 8 seconds later.
  auto times = [&] {
    std::ifstream in(tries);
    return std::count(std::istreambuf_iterator<char>(in), {}, 'x');
  };
  EXPECT_TRUE(eventually([&] { return times() >= 5 || driver->has_ended(); })) << driver->said();
  EXPECT_GE(times(), 5) << driver->said();
  std::filesystem::remove(off);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_THAT(driver->said(), HasSubstr("4 in a row, and it is asked for again"));
  expect_empty(3);
}

TEST_F(ClusterTest, IdleHostsAreGivenBackAndComeAgain) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("given_back", "n1,n2", ";min_nodes=0;idle=0.5");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  expect_empty(3);
}

// The first nodes of a run are not given back while `init` waits for the others.
TEST_F(ClusterTest, HostsThatWaitForASlowOneAreNotIdle) {
  make_hosts(3);
  if (IsSkipped()) return;
  std::string enter = folder_ / "enter";
  std::ofstream(enter) << "#!/bin/sh\n[ $1 = n2 ] && sleep 2\nexec " << hosts_->enter()
                       << " \"$@\"\n";
  std::filesystem::permissions(enter, std::filesystem::perms::owner_all);
  auto driver = start_driver("given_back", str("hosts:n1,n2;min_nodes=0;idle=0.5;command=", enter,
                                               " {host};address=", NetworkHosts::address(0)));
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  expect_empty(3);
}

TEST_F(ClusterTest, OneOfTwoIdleHostsKeepsWhatOnlyTheyHave) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("kept_by_one", "n1,n2", ";min_nodes=0;idle=0.5");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  expect_empty(3);
}

// Like a driver whose virtual machine is paused: the hosts have answered all the time.
TEST_F(ClusterTest, ADriverThatStoodStillHasLostNoHost) {
  make_hosts(3);
  if (IsSkipped()) return;
  auto driver = start("stood_still", "n1,n2", ";fence_after=60");
  ASSERT_TRUE(driver->says("ready")) << driver->said();
  ::kill(driver->pid(), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  ::kill(driver->pid(), SIGCONT);
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  EXPECT_THAT(driver->said(), testing::Not(HasSubstr("is lost")));
  expect_empty(3);
}

TEST_F(ClusterTest, WorkWaitsForANodeThatMayJoin) {
  make_hosts(2);
  if (IsSkipped()) return;
  std::string file = folder_ / "run.join";
  auto driver =
      start_driver("waits_for_node", str("join:0;max_nodes=1;cpus=8;grow_wait=2;file=", file,
                                         ";address=", NetworkHosts::address(0)));
  ASSERT_TRUE(driver->says("ready")) << driver->said();
  Running agent({hosts_->enter(), "n1", self()},
                {{kNodeVariable, "file:" + file}, {"MANTA_NODE_RESOURCES", "cpus=8"}},
                folder_ / "n1");
  EXPECT_EQ(driver->exit_code(), 0) << driver->said();
  expect_empty(2);
}

TEST_F(ClusterTest, AHostThatCannotBeReachedIsAnErrorThatSaysSo) {
  make_hosts(1);
  if (IsSkipped()) return;
  auto driver = start("hello", "n9");
  EXPECT_NE(driver->exit_code(), 0);
  EXPECT_THAT(driver->said(), HasSubstr("node n9 cannot join: the command that starts its agent "
                                        "exited with code 1. It said:\nnsenter: cannot open"));
  expect_empty(1);
}

TEST(HostsSourceTest, AHostThatIsNamedTwiceIsAnErrorThatSaysSo) {
  TemporaryFolder folder;
  for (const auto& [hosts, what] :
       std::map<std::string, std::string>{{"n1,n2,n1", "the cluster 'hosts' names host 'n1' twice"},
                                          {"n1,,n2", "the cluster 'hosts' names an empty host"}}) {
    Running driver({std::filesystem::read_symlink("/proc/self/exe")},
                   {{kJobVariable, "hello"},
                    {"MANTA_CLUSTER", str("hosts:", hosts, ";command=true;address=127.0.0.1")}},
                   folder / "driver");
    EXPECT_NE(driver.exit_code(), 0);
    EXPECT_THAT(driver.said(), HasSubstr(what));
  }
}

// Closed by default: a run on one machine listens on no network address.
TEST(OneMachine, ListensOnNoNetworkAddress) {
  std::vector<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.starts_with("socket:[")) inodes.push_back(target.substr(8, target.size() - 9));
  }
  ASSERT_FALSE(inodes.empty());
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
      fields >> number >> local >> remote >> state >> queues >> timer >> retries >> user >>
          timeout >> inode;
      EXPECT_THAT(inodes, testing::Not(testing::Contains(inode))) << line;
    }
  }
}

// An agent that has the driver's file, joins, and sends what the test tells it to.
class FakeAgent {
 public:
  FakeAgent(const std::string& file, const std::string& host) : channel_(connect(file)) {
    AgentHello hello;
    hello.build_id = program_build_id();
    hello.node.host = host;
    hello.node.address = "127.0.0.1:1";
    hello.node.total = {.cpus = 1};
    channel_.send([&](OutBuffer& out) { encode_message<FirstWord>(out, hello); });
  }
  Channel& channel() { return channel_; }

 private:
  static std::unique_ptr<Transport> connect(const std::string& file) {
    std::string line;
    std::ifstream in(file);
    std::getline(in, line);
    AgentOrder order = AgentOrder::parse(line);
    return connect_tls(TlsKey(order.token), order.host, order.port, Deadline::after(kPatience));
  }
  Channel channel_;
};

TEST(ClusterTroubleTest, ADriverWithoutFilesSaysWhyNoNodeCanJoin) {
  TemporaryFolder folder;
  std::string self = std::filesystem::read_symlink("/proc/self/exe"), file = folder / "run.join";
  Running driver({self},
                 {{kJobVariable, "no_files_left"},
                  {"MANTA_CLUSTER", str("join:0;max_nodes=1;file=", file, ";address=127.0.0.1")}},
                 folder / "driver.out");
  ASSERT_TRUE(driver.says("ready")) << driver.said();
  Running agent({self}, {{kNodeVariable, str("file:", file, ";wait=120")}}, folder / "agent.out");
  EXPECT_TRUE(driver.says("too many files are open, most likely; raise the limit of open files"))
      << driver.said();
  std::ofstream(file + ".go").close();
  EXPECT_EQ(driver.exit_code(), 0) << driver.said() << agent.said();
}

// The file of a driver that was killed is still there.
TEST(AgentThatJoinsTest, TriesUntilThereIsADriver) {
  TemporaryFolder folder;
  std::string self = std::filesystem::read_symlink("/proc/self/exe"), file = folder / "run.join";
  AgentOrder stale;
  stale.host = "127.0.0.1";
  stale.port = 1;
  stale.token = "of a run that is over";
  stale.build_id = program_build_id();
  stale.started_as = "join";
  std::ofstream(file) << stale.text();
  Running agent({self}, {{kNodeVariable, str("file:", file, ";wait=120")}}, folder / "agent.out");
  ASSERT_TRUE(agent.says("waits up to 120 s for a driver: ")) << agent.said();
  Running driver({self},
                 {{kJobVariable, "one_joins"},
                  {"MANTA_CLUSTER", str("join:1;file=", file, ";address=127.0.0.1")}},
                 folder / "driver.out");
  EXPECT_EQ(driver.exit_code(), 0) << driver.said() << agent.said();
  EXPECT_EQ(agent.exit_code(), 0) << agent.said();
}

TEST(AgentThatJoinsTest, GivesUpAndSaysWhy) {
  TemporaryFolder folder;
  std::string file = folder / "run.join";
  auto refusal = [&](const std::string& from) {
    Running agent({std::filesystem::read_symlink("/proc/self/exe")}, {{kNodeVariable, from}},
                  folder / "agent.out");
    EXPECT_EQ(agent.exit_code(), 1);
    return agent.said();
  };
  EXPECT_THAT(refusal("file:" + file + ";wait=0.1"),
              HasSubstr("no driver could be joined by the file '" + file + "' in 0.1 s: the file"));
  EXPECT_THAT(refusal("file:" + file + ";wait=soon"),
              HasSubstr("wait must be a number of seconds above 0"));
  EXPECT_THAT(refusal("elsewhere"), HasSubstr("it must be 'stdin'"));
}

// A run must not begin with fewer nodes than it asked for.
TEST(ClusterLivenessTest, ANodeThatJoinsAndIsLostBeforeTheRunBeginsIsNotCounted) {
  TemporaryFolder folder;
  std::string file = folder / "run.join";
  Running driver({std::filesystem::read_symlink("/proc/self/exe")},
                 {{kJobVariable, "deaf_node"},
                  {"MANTA_CLUSTER", str("join:2;wait=4;file=", file, ";address=127.0.0.1")}},
                 folder / "driver.out");
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(file); })) << driver.said();
  {
    FakeAgent brief(file, "brief");
    Frame welcome;
    ASSERT_TRUE(brief.channel().receive(&welcome, Deadline::after(kPatience)));
  }
  FakeAgent other(file, "other");
  EXPECT_NE(driver.exit_code(), 0);
  EXPECT_THAT(driver.said(), HasSubstr("of 2 nodes have joined in 4 s"));
  EXPECT_THAT(driver.said(), HasSubstr("; brief joined and was lost: "));
}

// An agent that sends all the time, and never answers: the driver's messages do not reach it, so
// that it would end its processes while the driver counts on them.
TEST(ClusterLivenessTest, ANodeThatTalksAndDoesNotAnswerIsLost) {
  TemporaryFolder folder;
  std::string file = folder / "run.join";
  Running driver({std::filesystem::read_symlink("/proc/self/exe")},
                 {{kJobVariable, "deaf_node"},
                  {"MANTA_CLUSTER", str("join:1;replace=no;dead_after=1;fence_after=60;file=", file,
                                        ";address=127.0.0.1")}},
                 folder / "driver.out");
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(file); })) << driver.said();
  FakeAgent deaf(file, "deaf");
  auto talk = [&] {
    return deaf.channel().send(
        [](OutBuffer& out) { encode_message<FromAgent>(out, AgentOutput{"and another thing\n"}); });
  };
  bool lost = false;  // the driver has closed the connection
  for (auto until = Deadline::after(kPatience); !lost && !until.passed();) {
    lost = !talk();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(lost) << "it talks and does not answer, and counts as alive";
  EXPECT_EQ(driver.exit_code(), 0) << driver.said();
  EXPECT_THAT(driver.said(), HasSubstr("node deaf is lost"));
  EXPECT_THAT(driver.said(), HasSubstr("all is well"));
}

TEST(ClusterOptionsTest, TextBecomesOptions) {
  auto options =
      ClusterOptions::parse("hosts:n1,n2;command=ssh -p 22 {host};address=10.0.0.5;wait=2.5");
  EXPECT_EQ(options.kind, "hosts");
  EXPECT_THAT(options.list, testing::ElementsAre("n1", "n2"));
  EXPECT_EQ(options.address, "10.0.0.5");
  EXPECT_EQ(options.wait.count(), 2500);
  EXPECT_TRUE(options.encrypt_objects);
  EXPECT_FALSE(ClusterOptions::parse("hosts:n1;encrypt_objects=no").encrypt_objects);
  EXPECT_FALSE(options.driver_cpus);
  EXPECT_EQ(ClusterOptions::parse("ray;driver_cpus=0").driver_cpus, 0);
  EXPECT_EQ(ClusterOptions::parse("ray;driver_cpus=2.5").driver_cpus, 2.5);
  EXPECT_EQ(options.take("command"), "ssh -p 22 {host}");
  EXPECT_NO_THROW(options.check_all_taken());
}

TEST(ClusterOptionsTest, NonsenseIsRefused) {
  auto refusal = [](const std::string& text) -> std::string {
    try {
      ClusterOptions::parse(text).check_all_taken();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("hosts:n1;adress=10.0.0.5"), HasSubstr("has no option 'adress'"));
  EXPECT_THAT(refusal("hosts:n1;10.0.0.5"), HasSubstr("'10.0.0.5' where an option is expected"));
  EXPECT_THAT(refusal("hosts:n1;wait=soon"), HasSubstr("'wait=soon'"));
  EXPECT_THAT(refusal("hosts:n1;encrypt_objects=maybe"),
              HasSubstr("'encrypt_objects=maybe': it must be yes or no"));
  EXPECT_THAT(refusal("hosts:n1;dead_after=20"), HasSubstr("fence_after must be longer"));
}

TEST(AgentOrderTest, GoesThereAndBack) {
  AgentOrder order;
  order.host = "fd00::7";
  order.port = 4711;
  order.token = std::string("with space\n and \0 byte", 22);
  order.build_id = {1, 2, 255};
  order.started_as = "n1";
  AgentOrder read = AgentOrder::parse(order.text());
  EXPECT_EQ(read.host, order.host);
  EXPECT_EQ(read.port, order.port);
  EXPECT_EQ(read.token, order.token);
  EXPECT_EQ(read.build_id, order.build_id);
  EXPECT_EQ(read.started_as, order.started_as);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  std::string line = order.text() + "more\n";
  ASSERT_EQ(::write(write_end.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  EXPECT_EQ(AgentOrder::parse(AgentOrder::read_line(read_end.get(), kPatience)).port, order.port);
  for (const char* text : {"", "manta-node-1", "manta-node-2 a 1 b c d", "GET / HTTP/1.1"}) {
    EXPECT_THROW(AgentOrder::parse(text), Error) << text;
  }
}

// An agent that gets no order ends; so does one that gets half an order.
TEST(AgentOrderTest, IsNotWaitedForForEver) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  for (const char* begin : {"", "manta-node-1 10.0."}) {
    ASSERT_GE(::write(write_end.get(), begin, std::strlen(begin)), 0);
    try {
      AgentOrder::read_line(read_end.get(), std::chrono::milliseconds(50));
      ADD_FAILURE() << "a line came";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      EXPECT_THAT(error.what(), HasSubstr("no whole line came on standard input in 0.05 s"));
    }
  }
}

}  // namespace
}  // namespace manta
