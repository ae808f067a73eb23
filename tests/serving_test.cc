// Programs that serve: what remains when they end, and detached fronts that go on without them.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "manta/base/temporary_folder_internal.h"
#include "manta/io/http_client_internal.h"
#include "manta/predict/predict_fixture_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Serving : public testing::Test {
 protected:
  std::string checkpoint() { return maker_.make({{"columns", "a b"}}).path(); }
  // The first line that a program prints.
  static std::string first_line(Program& program) {
    std::string line = program.read_line();
    EXPECT_THAT(line, HasSubstr("http://127.0.0.1:"));
    return line;
  }
  static void expect_answer(const std::string& url) {
    EXPECT_EQ(HttpClient(url).post(R"({"a":[1.5],"b":[2.5]})").body, R"({"predictions":[4]})");
  }
  static bool listens(const std::string& url) {
    try {
      HttpClient client(url);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  static bool all_gone(const std::vector<pid_t>& pids) {
    return std::none_of(pids.begin(), pids.end(), is_running);
  }

  CheckpointMaker maker_;
  TemporaryFolder folder_;
};

TEST_F(Serving, SigkillOfTheProgramLeavesNothing) {
  Program program(test_program("serving"), {"stay", checkpoint()}, folder_.path());
  std::string url = first_line(program);
  expect_answer(url);
  auto processes = descendants(program.pid());
  EXPECT_GE(processes.size(), 2u);  // the zygote and the replica
  program.send(SIGKILL);
  program.wait();
  EXPECT_TRUE(eventually([&] { return all_gone(processes); }));
  EXPECT_TRUE(eventually([&] { return folder_.entries().empty(); }));
  EXPECT_FALSE(listens(url));
}

// It prints its URL before it waits for signals.
bool catches(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

TEST_F(Serving, CtrlCAndSigtermEndItInOrder) {
  for (int signal : {SIGINT, SIGTERM}) {
    Program program(test_program("serving"), {"stay", checkpoint()}, folder_.path());
    expect_answer(first_line(program));
    auto processes = descendants(program.pid());
    ASSERT_TRUE(eventually([&] { return catches(program.pid(), signal); }));
    program.send(signal);
    EXPECT_EQ(program.read_line(), "ended");
    int status = program.wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_TRUE(eventually([&] { return all_gone(processes); }));
    EXPECT_THAT(folder_.entries(), IsEmpty());
  }
}

TEST_F(Serving, ADetachedFrontOutlivesItsProgramAndIsJoinedByName) {
  std::string url;
  {
    Program program(test_program("serving"), {"detached", "one", checkpoint()}, folder_.path());
    url = first_line(program);
    EXPECT_EQ(program.wait(), 0);
  }
  expect_answer(url);
  std::string front = url.substr(0, url.rfind('/'));
  {  // it deploys again, to the same front
    Program program(test_program("serving"), {"detached", "one", checkpoint()}, folder_.path());
    EXPECT_EQ(first_line(program), url);
    EXPECT_EQ(program.wait(), 0);
    expect_answer(url);
  }
  {
    Program other(test_program("serving"), {"status", "two"}, folder_.path());
    EXPECT_NE(first_line(other), front);
    EXPECT_EQ(other.read_line(), "0");
    EXPECT_EQ(other.wait(), 0);
    Program end(test_program("serving"), {"shutdown", "two"}, folder_.path());
    EXPECT_EQ(end.wait(), 0);
  }
  Program status(test_program("serving"), {"status", "one"}, folder_.path());
  EXPECT_EQ(first_line(status), front);
  EXPECT_EQ(status.read_line(), "1");
  EXPECT_EQ(status.wait(), 0);
  Program end(test_program("serving"), {"shutdown", "one"}, folder_.path());
  EXPECT_EQ(first_line(end), front);
  EXPECT_EQ(end.wait(), 0);
  EXPECT_TRUE(eventually([&] { return !listens(front); }));
  EXPECT_TRUE(eventually([&] { return folder_.entries().empty(); })) << folder_.entries().front();
}

TEST_F(Serving, ADetachedFrontThatWasKilledIsStartedAgain) {
  Program program(test_program("serving"), {"detached", "one", checkpoint()}, folder_.path());
  std::string url = first_line(program);
  pid_t front = std::stoi(program.read_line());
  EXPECT_EQ(program.wait(), 0);
  auto processes = descendants(front);
  ::kill(front, SIGKILL);
  EXPECT_TRUE(
      eventually([&] { return !is_running(front) && all_gone(processes) && !listens(url); }));
  Program again(test_program("serving"), {"detached", "one", checkpoint()}, folder_.path());
  expect_answer(first_line(again));
  EXPECT_EQ(again.wait(), 0);
  Program end(test_program("serving"), {"shutdown", "one"}, folder_.path());
  EXPECT_EQ(end.wait(), 0);
  EXPECT_TRUE(eventually([&] { return folder_.entries().empty(); })) << folder_.entries().front();
}

}  // namespace
}  // namespace manta
