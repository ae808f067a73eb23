#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "manta/base/log.h"
#include "manta/core/worker_log_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

constexpr off_t kTailBytes = 4000;
constexpr size_t kMaxLine = 64 << 10;  // longer ones are shown in pieces

void write_all(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    ssize_t written = ::write(2, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<size_t>(written);
  }
}

}  // namespace

WorkerLogs::WorkerLogs(EventLoop& loop, bool show)
    : loop_(loop), events_(loop.context), show_(show) {
  if (!show_) return;
  int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) {
    // Lines then come when their task is done, instead of as they are written.
    log_warning("too many inotify instances: workers' output is shown late");
    return;
  }
  events_.assign(fd);
  wait();
}

void WorkerLogs::stop() {
  if (events_.is_open()) events_.close();
}

void WorkerLogs::wait() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](boost::system::error_code error) {
                       std::lock_guard lock(loop_.mutex);
                       if (error || !events_.is_open()) return;
                       alignas(inotify_event) std::array<char, 16384> buffer;
                       ssize_t size = ::read(events_.native_handle(), buffer.data(), buffer.size());
                       for (ssize_t at = 0; at < size;) {
                         auto* event = reinterpret_cast<inotify_event*>(buffer.data() + at);
                         auto found = watched_.find(event->wd);
                         if (found != watched_.end()) found->second->show();
                         at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
                       }
                       wait();
                     });
}

WorkerLog::WorkerLog(WorkerLogs& logs, std::string name, std::string path)
    : logs_(logs), name_(std::move(name)), path_(std::move(path)) {
  UniqueFd created(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!logs_.events_.is_open()) return;
  watch_ = ::inotify_add_watch(logs_.events_.native_handle(), path_.c_str(), IN_MODIFY);
  if (watch_ >= 0) logs_.watched_[watch_] = this;
}

WorkerLog::~WorkerLog() {
  if (watch_ < 0 || !logs_.events_.is_open()) return;
  ::inotify_rm_watch(logs_.events_.native_handle(), watch_);
  logs_.watched_.erase(watch_);
}

void WorkerLog::show(bool last) {
  if (!logs_.show_) return;
  UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return;
  std::array<char, 65536> buffer;
  std::string out;
  auto put_line = [&](std::string_view line) {
    out.append("(").append(name_).append(") ").append(line).append("\n");
  };
  while (true) {
    ssize_t size = ::pread(file.get(), buffer.data(), buffer.size(), shown_);
    if (size <= 0) break;
    shown_ += size;
    partial_.append(buffer.data(), static_cast<size_t>(size));
    size_t begin = 0;
    for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      put_line(std::string_view(partial_).substr(begin, end - begin));
    }
    partial_.erase(0, begin);
    if (partial_.size() > kMaxLine) put_line(std::exchange(partial_, {}));
  }
  if (last && !partial_.empty()) put_line(std::exchange(partial_, {}));
  write_all(out);
}

std::string WorkerLog::tail() const {
  UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return "";
  off_t begin = std::max<off_t>(0, info.st_size - kTailBytes);
  std::string text(static_cast<size_t>(info.st_size - begin), '\0');
  ssize_t size = ::pread(file.get(), text.data(), text.size(), begin);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  if (begin > 0) text.erase(0, text.find('\n') + 1);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace manta
