#include <fcntl.h>
#include <gmock/gmock.h>

#include <fstream>

#include "manta/base/names_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/worker_log_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

// What is shown goes to a file instead of standard error.
class WorkerLogTest : public testing::Test {
 protected:
  WorkerLogTest() : standard_error_(::fcntl(2, F_DUPFD_CLOEXEC, 3)) {
    UniqueFd shown(::open((folder_ / "shown").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    ::dup2(shown.get(), 2);
  }
  ~WorkerLogTest() override { ::dup2(standard_error_.get(), 2); }

  void write(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  std::string shown() const {
    std::ifstream in(folder_ / "shown");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // As the hub's thread does it.
  void expect_shown(const std::string& text) {
    for (Deadline end = Deadline::after(30s); shown() != text && !end.passed();) {
      loop_.context.restart();
      loop_.context.run_for(5ms);
    }
    EXPECT_EQ(shown(), text);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "rank-0.log";
  UniqueFd standard_error_;
  EventLoop loop_;
};

TEST_F(WorkerLogTest, AFileThatIsFollowedAnewStaysFollowedWhenItsFirstReaderEnds) {
  WorkerLogs logs(loop_, true, false);
  auto first = std::make_unique<WorkerLog>(logs, "rank-0", path_);
  write("one\n");
  expect_shown("(rank-0) one\n");
  WorkerLog second(logs, "rank-0", path_);  // the rank was started again; the first is still read
  write("two\n");
  expect_shown("(rank-0) one\n(rank-0) two\n");
  first.reset();
  write("three\n");
  expect_shown("(rank-0) one\n(rank-0) two\n(rank-0) three\n");
  EXPECT_EQ(second.tail(), "two\nthree");
}

TEST_F(WorkerLogTest, EachReaderOfAFileShowsAndQuotesItsOwnPart) {
  WorkerLogs logs(loop_, true, false);
  WorkerLog first(logs, "rank-0", path_);
  write("of the first\n");
  WorkerLog second(logs, "rank-0", path_);
  write("of the second\n");
  EXPECT_EQ(first.tail(), "of the first");
  EXPECT_EQ(second.tail(), "of the second");
  EXPECT_EQ(second.tail(13 + 7), "of the ");
  first.show(true);
  second.show(true);
  EXPECT_EQ(shown(), "(rank-0) of the first\n(rank-0) of the second\n");
}

TEST_F(WorkerLogTest, RepeatedLinesAreCountedSoonAndAtTheEnd) {
  WorkerLogs logs(loop_, true, true);
  WorkerLog first(logs, "rank-0", path_);
  write("a warning\nother\n");
  expect_shown("(rank-0) a warning\n(rank-0) other\n");
  std::string second_path = folder_ / "rank-1.log";
  WorkerLog second(logs, "rank-1", second_path);
  std::ofstream(second_path) << "a warning\na warning\n";
  std::string counted =
      "(rank-0) a warning\n(rank-0) other\n(rank-1) a warning [repeated 2x across workers]\n";
  expect_shown(counted);
  std::ofstream(second_path, std::ios::app) << "a warning\n";
  second.show(true);
  logs.stop();
  EXPECT_EQ(shown(), counted + "(rank-1) a warning [repeated 1x across workers]\n");
}

TEST_F(WorkerLogTest, RepeatedLinesAreAllShownIfThatIsWanted) {
  WorkerLogs logs(loop_, true, false);
  WorkerLog log(logs, "rank-0", path_);
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    write("a warning\n");
    expected += "(rank-0) a warning\n";
  }
  log.show(true);
  EXPECT_EQ(shown(), expected);
}

}  // namespace
}  // namespace manta
