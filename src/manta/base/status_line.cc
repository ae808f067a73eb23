#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "manta/base/deadline.h"
#include "manta/base/status_line_internal.h"

namespace manta {
namespace {

constexpr size_t kUsualWidth = 80;
constexpr size_t kSafeWrite = 4096;  // poll(2) says of a pipe that it takes so much at once
// For somebody else's lines. Who writes past us may be held up for longer, by a stopped terminal.
constexpr std::chrono::milliseconds kPatience{100};
constexpr std::chrono::milliseconds kPause{2};

// Leaked on purpose: threads may still write while static objects are destroyed.
struct StatusLine {
  std::mutex mutex;
  std::string text;
  bool shown = false;
  bool in_line = false;  // what was written last has no end yet
};

StatusLine& status_line() {
  static auto* instance = new StatusLine;
  return *instance;
}

size_t terminal_width() {
  winsize size{};
  bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualWidth;
}

// How much was written; 0 if that would have to wait, as on a terminal that Ctrl-S has stopped.
size_t write_now(const char* bytes, size_t size) {
  pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&standard_error, 1, 0) != 1) return 0;
  ssize_t written = ::write(STDERR_FILENO, bytes, size);
  if (written >= 0) return static_cast<size_t>(written);
  return errno == EAGAIN || errno == EINTR ? 0 : size;  // closed: nobody wants to see it
}

bool write_now(const std::string& text) {
  return write_now(text.data(), text.size()) == text.size();
}

void clear(StatusLine& line) {
  if (line.shown && write_now("\r\033[K")) line.shown = false;
}

void draw(StatusLine& line) {
  if (line.in_line) return;
  if (line.text.empty()) return clear(line);
  // In the last column the cursor would go on to the next line.
  if (write_now("\r\033[K" + cut_to_width(line.text, terminal_width() - 1))) line.shown = true;
}

// Up to the end of a line, if there is one so near.
size_t next_chunk(const std::string& lines, size_t begin) {
  size_t size = std::min(kSafeWrite, lines.size() - begin);
  size_t end = lines.rfind('\n', begin + size - 1);
  return end == std::string::npos || end < begin ? size : end + 1 - begin;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

void set_status_line(const std::string& text) {
  StatusLine& line = status_line();
  // Not a timed_mutex, which ThreadSanitizer does not know.
  std::unique_lock lock(line.mutex, std::try_to_lock);
  for (Deadline end = Deadline::after(kPatience); !lock && !end.passed();) {
    std::this_thread::sleep_for(kPause);
    (void)lock.try_lock();
  }
  if (!lock) return;
  line.text = text;
  draw(line);
}

bool write_lines(std::string& lines) {
  if (lines.empty()) return true;
  StatusLine& line = status_line();
  std::unique_lock lock(line.mutex, std::try_to_lock);
  if (!lock) return false;
  clear(line);
  size_t done = 0;
  while (!line.shown && done < lines.size()) {
    size_t written = write_now(lines.data() + done, next_chunk(lines, done));
    if (written == 0) break;
    done += written;
    line.in_line = lines[done - 1] != '\n';
  }
  lines.erase(0, done);
  draw(line);
  return lines.empty();
}

AboveStatusLine::AboveStatusLine() : lock_(status_line().mutex) { clear(status_line()); }
AboveStatusLine::~AboveStatusLine() { draw(status_line()); }

std::string cut_to_width(const std::string& text, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!continues_character(text[i]) && ++characters > width) return text.substr(0, i);
  }
  return text;
}

}  // namespace manta
