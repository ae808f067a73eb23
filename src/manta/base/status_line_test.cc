#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "manta/base/status_line_internal.h"

namespace manta {
namespace {

// A terminal of 20 columns in place of standard error.
class Terminal {
 public:
  Terminal() : main_(::posix_openpt(O_RDWR | O_NOCTTY)), old_(::dup(STDERR_FILENO)) {
    ::grantpt(main_);
    ::unlockpt(main_);
    int other = ::open(::ptsname(main_), O_RDWR | O_NOCTTY);
    winsize size{10, 20, 0, 0};
    ::ioctl(other, TIOCSWINSZ, &size);
    ::dup2(other, STDERR_FILENO);
    ::close(other);
  }
  ~Terminal() {
    ::dup2(old_, STDERR_FILENO);
    ::close(old_);
    ::close(main_);
  }

  /// Expects that the next bytes written are `expected`.
  void expect(const std::string& expected) {
    std::string text;
    pollfd output{main_, POLLIN, 0};
    while (text.size() < expected.size() && ::poll(&output, 1, 10'000) == 1) {
      char bytes[100];
      ssize_t size = ::read(main_, bytes, std::min(sizeof(bytes), expected.size() - text.size()));
      text.append(bytes, static_cast<size_t>(std::max<ssize_t>(size, 0)));
    }
    EXPECT_EQ(text, expected);
  }

 private:
  int main_, old_;
};

TEST(StatusLineTest, IsReplacedAndStaysBelowOtherLines) {
  Terminal terminal;
  StatusLine status;
  status.set("step 1");
  terminal.expect("\r\033[Kstep 1");
  status.set("step 2");
  terminal.expect("\r\033[Kstep 2");
  {
    AboveStatusLines above;
    std::cerr << "a line\n";
  }
  terminal.expect("\r\033[Ka line\r\n\r\033[Kstep 2");
  status.set("");
  terminal.expect("\r\033[K");
  {
    AboveStatusLines above;
    std::cerr << "the last\n";
  }
  terminal.expect("the last\r\n");
}

TEST(StatusLineTest, IsCutToTheTerminal) {
  Terminal terminal;
  StatusLine status;
  status.set("123456789 123456789 123456789");
  terminal.expect("\r\033[K123456789 123456789");
  status.set("");
  terminal.expect("\r\033[K");
}

TEST(StatusLineTest, LinesAreWrittenAboveIt) {
  Terminal terminal;
  StatusLine status;
  status.set("step 1");
  std::string lines = "one\ntwo\n";
  EXPECT_TRUE(write_lines(lines));
  EXPECT_EQ(lines, "");
  terminal.expect("\r\033[Kstep 1\r\033[Kone\r\ntwo\r\n\r\033[Kstep 1");
  lines = "three, ";
  EXPECT_TRUE(write_lines(lines));
  terminal.expect("\r\033[Kthree, ");  // not drawn over
  lines = "four\n";
  EXPECT_TRUE(write_lines(lines));
  terminal.expect("four\r\n\r\033[Kstep 1");
  status.set("");
  terminal.expect("\r\033[K");
}

TEST(StatusLineTest, EveryOwnerHasALine) {
  Terminal terminal;
  StatusLine a;
  auto b = std::make_unique<StatusLine>();
  b->set("b 1");
  terminal.expect("\r\033[Kb 1");
  a.set("a 1");
  terminal.expect("\r\033[Ka 1\r\nb 1");
  b->set("b 2");
  terminal.expect("\r\033[K\033[A\033[Ka 1\r\nb 2");
  std::string line = "one\n";
  EXPECT_TRUE(write_lines(line));
  terminal.expect("\r\033[K\033[A\033[Kone\r\n\r\033[Ka 1\r\nb 2");
  b.reset();
  terminal.expect("\r\033[K\033[A\033[Ka 1");
  std::vector<std::unique_ptr<StatusLine>> many;
  for (int i = 0; i < 9; ++i) {
    many.push_back(std::make_unique<StatusLine>());
    many.back()->set(std::to_string(i));
  }
  // Half of ten rows.
  std::string four_rows = "\033[A\033[K\033[A\033[K\033[A\033[K\033[A\033[K";
  std::string drawn = "\r\033[Ka 1\r\n0\r\033[K\033[A\033[Ka 1\r\n0\r\n1";
  drawn += "\r\033[K\033[A\033[K\033[A\033[Ka 1\r\n0\r\n1\r\n2";
  drawn += "\r\033[K\033[A\033[K\033[A\033[K\033[A\033[Ka 1\r\n0\r\n1\r\n2\r\n3";
  terminal.expect(drawn);
  for (int left_out = 2; left_out <= 6; ++left_out) {
    terminal.expect("\r\033[K" + four_rows + "a 1\r\n0\r\n1\r\n2\r\nand " +
                    std::to_string(left_out) + " more");
  }
}

TEST(StatusLineTest, DoesNotWaitForAReader) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  int old = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "a line that nobody reads\n";
  size_t all = lines.size();
  bool written = write_lines(lines);
  size_t left = lines.size();
  ::dup2(old, STDERR_FILENO);
  EXPECT_FALSE(written);
  EXPECT_LT(left, all);
  EXPECT_GT(left, 0u);
  for (int fd : {old, ends[0], ends[1]}) ::close(fd);
}

TEST(StatusLineTest, CharactersStayWhole) {
  EXPECT_EQ(cut_to_width("µs µs", 1), "µ");
  EXPECT_EQ(cut_to_width("µs µs", 4), "µs µ");
  EXPECT_EQ(cut_to_width("µs", 5), "µs");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

}  // namespace
}  // namespace manta
