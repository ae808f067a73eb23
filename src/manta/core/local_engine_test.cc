// The engine by itself starts, watches and stops processes, which join no run.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "manta/base/eventually_internal.h"
#include "manta/base/names_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/local_engine_internal.h"
#include "manta/core/session_folder_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class LocalEngineTest : public testing::Test, public EngineEvents {
 protected:
  LocalEngineTest() : folder_(""), socket_(listen_unix(folder_.path() + "/hub.sock")) {
    // Nothing answers at the socket: a worker waits there, alive, for a minute.
    LocalEngineOptions options;
    options.node.total = {.cpus = 2};
    options.address = {folder_.path() + "/hub.sock", "token"};
    options.session_folder = folder_.path();
    options.argv = {"local_engine_test"};
    std::lock_guard lock(loop_.mutex);
    engine_ = std::make_unique<LocalEngine>(loop_, options, *this);
    thread_ = std::thread([this] { loop_.context.run(); });
  }

  ~LocalEngineTest() override {
    loop_.post([this] {
      engine_->shutdown();
      loop_.context.stop();
    });
    thread_.join();
  }

  ProcessSpec spec(const std::string& name) const {
    ProcessSpec result;
    result.name = name;
    result.log_path = folder_.path() + "/" + name + ".log";
    return result;
  }

  std::vector<ProcessId> start(const std::vector<ProcessSpec>& gang) {
    std::lock_guard lock(loop_.mutex);
    std::vector<Placed> placed;
    for (const auto& each : gang) placed.push_back({0, each});
    return engine_->start(placed);
  }

  // The events come with the loop's lock held.
  void on_started(ProcessId process, pid_t pid) override {
    pids_[process] = pid;
    changed_.notify_all();
  }
  void on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) override {
    failed_ = gang;
    why_ = why;
    changed_.notify_all();
  }
  void on_node_joined(const NodeInfo& node) override { joined_ = node; }
  void on_node_draining(NodeId, const std::string&) override {}
  void on_node_left(NodeId, const std::string&) override {}
  void on_process_connected(const std::shared_ptr<AsyncChannel>&, const Hello&) override {}
  void on_output(const std::string&) override {}
  void on_exited(const ProcessExit& exit) override {
    exits_[exit.process] = exit;
    changed_.notify_all();
  }

  template <class Predicate>
  bool eventually(Predicate predicate) {
    std::unique_lock lock(loop_.mutex);
    return changed_.wait_for(lock, 30s, predicate);
  }

  SessionFolder folder_;
  UniqueFd socket_;
  EventLoop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  std::unique_ptr<LocalEngine> engine_;
  std::thread thread_;
  std::condition_variable changed_;
  std::map<ProcessId, pid_t> pids_;
  std::map<ProcessId, ProcessExit> exits_;
  NodeInfo joined_;
  std::vector<ProcessId> failed_;
  std::string why_;
};

TEST_F(LocalEngineTest, ItsMachineIsANodeFromTheBeginning) {
  EXPECT_EQ(joined_.id, 0u);
  EXPECT_EQ(joined_.total, (Resources{.cpus = 2}));
}

TEST_F(LocalEngineTest, AGangIsStartedAndEachEndIsTold) {
  auto ids = start({spec("a"), spec("b"), spec("c")});
  ASSERT_TRUE(eventually([&] { return pids_.size() == 3; }));
  ::kill(pids_[ids[1]], SIGKILL);
  ASSERT_TRUE(eventually([&] { return exits_.size() == 1; }));
  EXPECT_EQ(exits_.begin()->first, ids[1]);
  EXPECT_EQ(exits_.begin()->second.signal, SIGKILL);
  EXPECT_THAT(exits_.begin()->second.describe(), HasSubstr("was killed by SIGKILL (signal 9"));
  EXPECT_EQ(::kill(pids_[ids[0]], 0), 0);
  EXPECT_EQ(::kill(pids_[ids[2]], 0), 0);
}

TEST_F(LocalEngineTest, OfAGangThatCannotAllStartNoneDoes) {
  auto bad = spec("bad");
  bad.log_path = folder_.path() + "/no/such/folder/log";
  auto ids = start({spec("a"), spec("b"), bad});
  ASSERT_TRUE(eventually([&] { return !failed_.empty(); }));
  EXPECT_THAT(failed_, ElementsAre(ids[0], ids[1], ids[2]));
  EXPECT_THAT(why_, HasSubstr("its log file"));
  EXPECT_TRUE(pids_.empty());

  // Output through a link would go where another user wants it.
  auto linked = spec("linked");
  std::filesystem::create_symlink(folder_.path() + "/elsewhere", linked.log_path);
  failed_.clear();
  start({linked});
  ASSERT_TRUE(eventually([&] { return !failed_.empty(); }));
  EXPECT_THAT(why_, HasSubstr("its log file"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/elsewhere"));
}

TEST_F(LocalEngineTest, KillEndsAStoppedProcessToo) {
  auto ids = start({spec("willing"), spec("stopped"), spec("left")});
  ASSERT_TRUE(eventually([&] { return pids_.size() == 3; }));
  ::kill(pids_[ids[1]], SIGSTOP);
  {
    std::lock_guard lock(loop_.mutex);
    engine_->kill(ids[0]);
    engine_->kill(ids[1]);
    engine_->kill(12345);  // unknown
  }
  ASSERT_TRUE(eventually([&] { return exits_.size() == 2; }));
  EXPECT_EQ(exits_[ids[0]].signal, SIGKILL);
  EXPECT_EQ(exits_[ids[1]].signal, SIGKILL);
  EXPECT_EQ(::kill(pids_[ids[2]], 0), 0);
}

TEST_F(LocalEngineTest, AProcessThatCannotJoinEndsByItself) {
  socket_.reset();
  std::filesystem::remove(folder_.path() + "/hub.sock");
  auto ids = start({spec("lonely")});
  ASSERT_TRUE(eventually([&] { return exits_.size() == 1; }));
  EXPECT_EQ(exits_[ids[0]].code, 1);
  std::ifstream in(folder_.path() + "/lonely.log");
  std::string log((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(log, HasSubstr("lonely cannot join its run: connecting to"));
}

struct NoEvents : EngineEvents {
  void on_started(ProcessId, pid_t) override {}
  void on_start_failed(const std::vector<ProcessId>&, const std::string&) override {}
  void on_exited(const ProcessExit&) override {}
  void on_node_joined(const NodeInfo&) override {}
  void on_node_draining(NodeId, const std::string&) override {}
  void on_node_left(NodeId, const std::string&) override {}
  void on_process_connected(const std::shared_ptr<AsyncChannel>&, const Hello&) override {}
  void on_output(const std::string&) override {}
};

// The driver may start another zygote, which needs the folder, too.
TEST(ZygoteTest, RemovesTheFolderOnlyIfTheDriverHasGone) {
  for (bool driver_goes : {false, true}) {
    TemporaryFolder folder;
    StartAs start;
    start.driver_pid = ::getpid();
    start.session_folder = folder.path();
    auto [ours, theirs] = socket_pair();
    pid_t zygote = ::fork();
    ASSERT_GE(zygote, 0);
    if (zygote == 0) {
      ours.reset();
      ::dup2(::open("/dev/null", O_WRONLY), 2);
      Channel channel(std::move(theirs));
      run_zygote(channel, start, nullptr);
    }
    theirs.reset();
    auto channel = std::make_unique<Channel>(std::move(ours));
    Frame frame;
    ASSERT_TRUE(channel->receive(&frame, Deadline::after(30s)));
    if (driver_goes) {
      channel.reset();
    } else {
      ASSERT_EQ(::send(channel->fd(), "nonsense, and more of it", 24, MSG_NOSIGNAL), 24);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(zygote, &status, 0), zygote);
    EXPECT_EQ(std::filesystem::exists(folder.path()), !driver_goes);
  }
}

// The zygote knows before it starts what to remove, and the terminal's signals do not reach it.
TEST(ZygoteTest, RemovesTheFolderIfTheDriverIsKilledWhileItStarts) {
  TemporaryFolder folder;
  std::string session = folder / "session";
  std::filesystem::create_directory(session);
  pid_t driver = ::fork();
  ASSERT_GE(driver, 0);
  if (driver == 0) {
    ::setpgid(0, 0);
    EventLoop loop;  // never runs
    NoEvents events;
    std::lock_guard lock(loop.mutex);
    LocalEngineOptions options;
    options.session_folder = session;
    options.argv = {"local_engine_test"};
    LocalEngine engine(loop, options, events);
    ::kill(0, SIGINT);  // like a terminal's Ctrl-C: to all processes of the group
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(driver, &status, 0), driver);
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  EXPECT_TRUE(manta::eventually([&] { return !std::filesystem::exists(session); }));
}

// A program may send its output to a file of its own before its workers are forked.
TEST(LineOutput, AStreamThatWritesToAFileIsLeftAlone) {
  TemporaryFolder folder;
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::ofstream file(folder / "mine");
    std::cout.rdbuf(file.rdbuf());
    line_buffer_output();
    std::cout << "text";
    std::cerr << "";
    file.flush();
    ::_exit(std::cout.rdbuf() == file.rdbuf() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::filesystem::file_size(folder / "mine"), 4u);
}

}  // namespace
}  // namespace manta
