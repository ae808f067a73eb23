#pragma once

#include <mutex>
#include <string>

namespace manta {

/// The last line of the terminal, for what changes all the time: shown on standard error, cut to
/// the terminal's width, and replaced by the next one. One a process; empty: none. Left out if the
/// terminal takes no more just now.
void set_status_line(const std::string& text);

/// While it lives, what is written to standard error, whole lines, stands above the status line.
/// From any thread; nothing but the writing belongs inside. On a terminal that takes no more, its
/// constructor waits; where there never was a status line it does nothing.
class AboveStatusLine {
 public:
  AboveStatusLine();
  ~AboveStatusLine();
  AboveStatusLine(const AboveStatusLine&) = delete;
  AboveStatusLine& operator=(const AboveStatusLine&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

/// At most `width` characters, without cutting one (of UTF-8) in two.
std::string cut_to_width(const std::string& text, size_t width);

}  // namespace manta
