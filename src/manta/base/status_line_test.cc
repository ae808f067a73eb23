#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

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

  /// The next that was written, as long as `expected` is.
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
  set_status_line("step 1");
  terminal.expect("\r\033[Kstep 1");
  set_status_line("step 2");
  terminal.expect("\r\033[Kstep 2");
  {
    AboveStatusLine above;
    std::cerr << "a line\n";
  }
  terminal.expect("\r\033[Ka line\r\n\r\033[Kstep 2");
  set_status_line("");
  terminal.expect("\r\033[K");
  {
    AboveStatusLine above;
    std::cerr << "the last\n";
  }
  terminal.expect("the last\r\n");
}

TEST(StatusLineTest, IsCutToTheTerminal) {
  Terminal terminal;
  set_status_line("123456789 123456789 123456789");
  terminal.expect("\r\033[K123456789 123456789");
  set_status_line("");
  terminal.expect("\r\033[K");
}

TEST(StatusLineTest, CharactersStayWhole) {
  EXPECT_EQ(cut_to_width("µs µs", 1), "µ");
  EXPECT_EQ(cut_to_width("µs µs", 4), "µs µ");
  EXPECT_EQ(cut_to_width("µs", 5), "µs");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

}  // namespace
}  // namespace manta
