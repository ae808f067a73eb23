#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"
#include "manta/base/status_line_internal.h"

namespace manta {
namespace {

constexpr size_t kSafeWrite = 4096;  // a pipe that poll(2) calls writable takes this many bytes at
                                     // once
// How long to wait while another thread writes its lines. A stopped terminal may hold up
// AboveStatusLines for longer.
constexpr std::chrono::milliseconds kPatience{100};
constexpr std::chrono::milliseconds kPause{2};

// Leaked on purpose: threads may still write while static objects are destroyed.
struct StatusArea {
  std::mutex mutex;
  std::map<uint64_t, std::string> lines;  // by the number of their owners
  uint64_t next_number = 0;
  size_t shown = 0;      // rows
  bool in_line = false;  // the last line written has no line end yet
};

StatusArea& status_area() {
  static auto* instance = new StatusArea;
  return *instance;
}

struct TerminalSize {
  size_t rows = 24, columns = 80;
};

TerminalSize terminal_size() {
  winsize size{};
  bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? TerminalSize{size.ws_row, size.ws_col} : TerminalSize{};
}

// How much was written; 0 if that would have to wait, as on a terminal that Ctrl-S has stopped.
size_t write_now(const char* bytes, size_t size) {
  pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&standard_error, 1, 0) != 1) return 0;
  ssize_t written = ::write(STDERR_FILENO, bytes, size);
  if (written >= 0) return static_cast<size_t>(written);
  return errno == EAGAIN || errno == EINTR ? 0 : size;  // closed: drop it
}

bool write_now(const std::string& text) {
  return write_now(text.data(), text.size()) == text.size();
}

// Takes the cursor from the end of the area's last row to the beginning of its first.
std::string erasing(size_t rows) {
  std::string codes = "\r\033[K";
  for (size_t i = 1; i < rows; ++i) codes += "\033[A\033[K";
  return codes;
}

void clear(StatusArea& area) {
  if (area.shown > 0 && write_now(erasing(area.shown))) area.shown = 0;
}

// At most half of the terminal, so that the lines above stay readable.
std::vector<std::string> rows_of(const StatusArea& area) {
  TerminalSize terminal = terminal_size();
  size_t room = std::max<size_t>(1, terminal.rows / 2);
  std::vector<std::string> rows;
  for (const auto& [number, text] : area.lines) {
    // In the last column the cursor would go on to the next line.
    if (!text.empty()) rows.push_back(cut_to_width(text, terminal.columns - 1));
  }
  if (rows.size() > room) {
    std::string rest = str("and ", rows.size() - room + 1, " more");
    rows.resize(room - 1);
    rows.push_back(cut_to_width(rest, terminal.columns - 1));
  }
  return rows;
}

void draw(StatusArea& area) {
  if (area.in_line) return;
  auto rows = rows_of(area);
  if (rows.empty()) return clear(area);
  std::string text = erasing(area.shown);
  for (size_t i = 0; i < rows.size(); ++i) text += (i == 0 ? "" : "\n") + rows[i];
  if (write_now(text)) area.shown = rows.size();
}

// Ends at a line end, if there is one within the chunk.
size_t next_chunk(const std::string& lines, size_t begin) {
  size_t size = std::min(kSafeWrite, lines.size() - begin);
  size_t end = lines.rfind('\n', begin + size - 1);
  return end == std::string::npos || end < begin ? size : end + 1 - begin;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

StatusLine::StatusLine()
    : number_([] {
        std::lock_guard lock(status_area().mutex);
        return status_area().next_number++;
      }()) {}

StatusLine::~StatusLine() {
  std::lock_guard lock(status_area().mutex);
  if (status_area().lines.erase(number_) > 0) draw(status_area());
}

void StatusLine::set(const std::string& text) {
  StatusArea& area = status_area();
  // Not a timed_mutex, which ThreadSanitizer does not know.
  std::unique_lock lock(area.mutex, std::try_to_lock);
  for (Deadline end = Deadline::after(kPatience); !lock && !end.passed();) {
    std::this_thread::sleep_for(kPause);
    (void)lock.try_lock();
  }
  if (!lock) return;
  area.lines[number_] = text;
  draw(area);
}

bool write_lines(std::string& lines) {
  if (lines.empty()) return true;
  StatusArea& area = status_area();
  std::unique_lock lock(area.mutex, std::try_to_lock);
  if (!lock) return false;
  clear(area);
  size_t done = 0;
  while (area.shown == 0 && done < lines.size()) {
    size_t written = write_now(lines.data() + done, next_chunk(lines, done));
    if (written == 0) break;
    done += written;
    area.in_line = lines[done - 1] != '\n';
  }
  lines.erase(0, done);
  draw(area);
  return lines.empty();
}

AboveStatusLines::AboveStatusLines() : lock_(status_area().mutex) { clear(status_area()); }
AboveStatusLines::~AboveStatusLines() { draw(status_area()); }

std::string cut_to_width(const std::string& text, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!continues_character(text[i]) && ++characters > width) return text.substr(0, i);
  }
  return text;
}

}  // namespace manta
