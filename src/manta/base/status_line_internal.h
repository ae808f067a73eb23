#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace manta {

// Standard error, shared by all threads of this process: lines that stay, and below them, on a
// terminal, some that change: one for each that is busy with something.

/// One of the last lines of the terminal, for what changes all the time: cut to the terminal's
/// width. They stand in the order in which they were made; if there are too many for the terminal,
/// the last one says how many are left out.
class StatusLine {
 public:
  StatusLine();   ///< Shows nothing yet.
  ~StatusLine();  ///< Gone.
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Replaces it; empty: no line. Not shown before the next one if the terminal takes no more now.
  void set(const std::string& text);

 private:
  const uint64_t number_;
};

/// Writes of `lines` what standard error takes without waiting, above the status lines, and removes
/// that. True if it was all.
bool write_lines(std::string& lines);

/// For what is written to standard error in another way: while it lives, above the status lines.
class AboveStatusLines {
 public:
  AboveStatusLines();
  ~AboveStatusLines();
  AboveStatusLines(const AboveStatusLines&) = delete;
  AboveStatusLines& operator=(const AboveStatusLines&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

/// At most `width` characters, without cutting one (of UTF-8) in two.
std::string cut_to_width(const std::string& text, size_t width);

}  // namespace manta
