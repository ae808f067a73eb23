#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace manta {

// Standard error, shared by all threads of this process. It shows lines that stay and, on a
// terminal, status lines below them that change: one for each StatusLine object.

/// One of the last lines of the terminal, for text that changes all the time. It is cut to the
/// terminal's width. Status lines stand in the order in which they were made; if there are too many
/// for the terminal, the last one says how many are left out.
class StatusLine {
 public:
  StatusLine();   ///< Shows nothing yet.
  ~StatusLine();  ///< Removes the line.
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Replaces the text; empty: no line. If the terminal takes no more now, the text is not shown;
  /// the next call tries again.
  void set(const std::string& text);

 private:
  const uint64_t number_;
};

/// Writes as much of `lines` as standard error takes without waiting, above the status lines, and
/// removes that part from `lines`. True if it wrote everything.
bool write_lines(std::string& lines);

/// While this lives, what other code writes to standard error appears above the status lines.
class AboveStatusLines {
 public:
  AboveStatusLines();
  ~AboveStatusLines();
  AboveStatusLines(const AboveStatusLines&) = delete;
  AboveStatusLines& operator=(const AboveStatusLines&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

/// The first `width` characters at most, without cutting a UTF-8 character in two.
std::string cut_to_width(const std::string& text, size_t width);

}  // namespace manta
