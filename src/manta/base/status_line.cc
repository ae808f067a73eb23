#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>

#include "manta/base/status_line_internal.h"

namespace manta {
namespace {

constexpr size_t kUsualWidth = 80;

// Leaked on purpose: threads may still write while static objects are destroyed.
struct StatusLine {
  std::atomic<bool> used = false;
  std::mutex mutex;
  std::string text;
  bool shown = false;
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

// False if that would have to wait, as on a terminal that Ctrl-S has stopped.
bool write_now(const std::string& text) {
  pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&standard_error, 1, 0) != 1) return false;
  return ::write(STDERR_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

void clear(StatusLine& line) {
  if (line.shown && write_now("\r\033[K")) line.shown = false;
}

void draw(StatusLine& line) {
  if (line.text.empty()) return clear(line);
  // In the last column the cursor would go on to the next line.
  if (write_now("\r\033[K" + cut_to_width(line.text, terminal_width() - 1))) line.shown = true;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

void set_status_line(const std::string& text) {
  StatusLine& line = status_line();
  if (!text.empty()) line.used = true;
  std::lock_guard lock(line.mutex);
  line.text = text;
  draw(line);
}

AboveStatusLine::AboveStatusLine() {
  StatusLine& line = status_line();
  if (!line.used) return;
  pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
  ::poll(&standard_error, 1, -1);  // before the lock, which others need who do not wait
  lock_ = std::unique_lock(line.mutex);
  clear(line);
}

AboveStatusLine::~AboveStatusLine() {
  if (lock_) draw(status_line());
}

std::string cut_to_width(const std::string& text, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!continues_character(text[i]) && ++characters > width) return text.substr(0, i);
  }
  return text;
}

}  // namespace manta
