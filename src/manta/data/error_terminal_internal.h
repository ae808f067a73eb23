#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace manta::data {

/// For tests: a terminal in place of standard error.
class ErrorTerminal {
 public:
  ErrorTerminal()
      : main_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)),
        old_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    ::grantpt(main_);
    ::unlockpt(main_);
    int other = ::open(::ptsname(main_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ::dup2(other, STDERR_FILENO);
    ::close(other);
  }
  ~ErrorTerminal() {
    restore();
    ::close(main_);
  }
  /// What was written until now.
  std::string restore() {
    if (old_ < 0) return {};
    std::string text;
    pollfd output{main_, POLLIN, 0};
    while (::poll(&output, 1, 200) == 1 && (output.revents & POLLIN)) {
      char bytes[1000];
      ssize_t size = ::read(main_, bytes, sizeof(bytes));
      if (size <= 0) break;
      text.append(bytes, static_cast<size_t>(size));
    }
    ::dup2(old_, STDERR_FILENO);
    ::close(old_);
    old_ = -1;
    return text;
  }

 private:
  int main_, old_;
};

}  // namespace manta::data
