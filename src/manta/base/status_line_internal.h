#pragma once

#include <mutex>
#include <string>

namespace manta {

// Standard error, shared by all threads of this process: lines that stay, and below them, on a
// terminal, one that changes.

/// The last line of the terminal, for what changes all the time: cut to the terminal's width, and
/// replaced by the next one. One a process; empty: none. Left out if the terminal takes no more.
void set_status_line(const std::string& text);

/// Writes of `lines` what standard error takes without waiting, above the status line, and removes
/// that. True if it was all.
bool write_lines(std::string& lines);

/// For what is written to standard error in another way: while it lives, above the status line.
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
