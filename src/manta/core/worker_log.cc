#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "manta/base/deadline.h"
#include "manta/base/log_internal.h"
#include "manta/base/names_internal.h"
#include "manta/base/status_line_internal.h"
#include "manta/core/worker_log_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

constexpr off_t kTailBytes = 4000;
constexpr size_t kMaxLine = 64 << 10;  // longer ones are shown in pieces
constexpr int kTurns = 4;              // reads of 64 KB before others get their turn
constexpr std::chrono::milliseconds kLater{20};
constexpr std::chrono::seconds kLastWords{1};

}  // namespace

WorkerLogs::WorkerLogs(EventLoop& loop, bool show, bool fold_repeated, Write write)
    : loop_(loop),
      events_(loop.context),
      show_(show),
      fold_repeated_(fold_repeated),
      write_(std::move(write)) {
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

void WorkerLogs::wait() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](boost::system::error_code error) {
                       std::lock_guard lock(loop_.mutex);
                       if (error || !events_.is_open()) return;
                       alignas(inotify_event) std::array<char, 16384> buffer;
                       ssize_t size = ::read(events_.native_handle(), buffer.data(), buffer.size());
                       for (ssize_t at = 0; at < size;) {
                         auto* event = reinterpret_cast<inotify_event*>(buffer.data() + at);
                         auto [begin, end] = watched_.equal_range(event->wd);
                         for (auto log = begin; log != end; ++log) log->second->show();
                         at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
                       }
                       wait();
                     });
}

// For those that have more than they could show in one turn.
void WorkerLogs::show_later() {
  if (later_ || (behind_.empty() && finishing_.empty())) return;
  later_ = loop_.after(kLater, [this] {
    auto done = std::move(later_);
    for (WorkerLog* log : std::exchange(behind_, {})) log->show();
    std::erase_if(finishing_, [](const auto& log) { return !log->show(true); });
    show_later();
  });
}

void WorkerLogs::count_later() {
  if (counting_ || (!repeated_.waits() && counts_.empty())) return;
  counting_ = loop_.after(RepeatedLines::kWindow / 4, [this] {
    auto done = std::move(counting_);
    write_counts();
    count_later();
  });
}

// True if none is left to write.
bool WorkerLogs::write_counts(bool last) {
  counts_ += repeated_.take_counts(Clock::now(), last);
  return write_(counts_);
}

void WorkerLogs::show_lines(const std::string& lines) {
  if (!show_) return;
  counts_ += lines;
  if (!write_(counts_)) count_later();
}

void WorkerLogs::finish(std::unique_ptr<WorkerLog> log) {
  if (log && log->show(true)) {
    finishing_.push_back(std::move(log));
    show_later();
  }
}

void WorkerLogs::stop() {
  later_.reset();
  counting_.reset();
  Deadline deadline = Deadline::after(kLastWords);
  while (!deadline.passed()) {
    std::erase_if(finishing_, [](const auto& log) { return !log->show(true); });
    if (finishing_.empty() && write_counts(true)) break;
    pollfd standard_error{2, POLLOUT, 0};
    ::poll(&standard_error, 1, 20);
  }
  counting_.reset();
  finishing_.clear();
  if (events_.is_open()) events_.close();
}

WorkerLog::WorkerLog(WorkerLogs& logs, std::string name, std::string path)
    : logs_(logs), name_(std::move(name)), path_(std::move(path)) {
  UniqueFd file(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info {};
  if (file && ::fstat(file.get(), &info) == 0) begin_ = shown_ = info.st_size;
  auto [earlier, end] = logs_.by_path_.equal_range(path_);
  for (; earlier != end; ++earlier) {
    earlier->second->end_ = std::min(earlier->second->end_, begin_);
  }
  logs_.by_path_.emplace(path_, this);
  if (!logs_.events_.is_open()) return;
  // The same number as that of an earlier one of the same file.
  watch_ =
      ::inotify_add_watch(logs_.events_.native_handle(), path_.c_str(), IN_MODIFY | IN_DONT_FOLLOW);
  if (watch_ >= 0) logs_.watched_.emplace(watch_, this);
}

WorkerLog::~WorkerLog() {
  auto is_this = [this](const auto& entry) { return entry.second == this; };
  std::erase_if(logs_.by_path_, is_this);
  logs_.behind_.erase(this);
  if (watch_ < 0 || !logs_.events_.is_open()) return;
  std::erase_if(logs_.watched_, is_this);
  if (!logs_.watched_.contains(watch_)) {
    ::inotify_rm_watch(logs_.events_.native_handle(), watch_);
  }
}

void WorkerLog::put_line(std::string_view line) {
  if (logs_.fold_repeated_ && !logs_.repeated_.is_new(name_, line, Clock::now())) return;
  pending_.append("(").append(name_).append(") ").append(line).append("\n");
}

void WorkerLog::read_lines(bool last) {
  UniqueFd file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::array<char, 65536> buffer;
  auto left = static_cast<size_t>(std::max(0L, end_ - shown_));
  ssize_t size =
      file ? ::pread(file.get(), buffer.data(), std::min(buffer.size(), left), shown_) : 0;
  if (size > 0) {
    shown_ += size;
    partial_.append(buffer.data(), static_cast<size_t>(size));
    size_t begin = 0;
    for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      put_line(std::string_view(partial_).substr(begin, end - begin));
    }
    partial_.erase(0, begin);
    if (partial_.size() > kMaxLine) put_line(std::exchange(partial_, {}));
  } else if (last && !partial_.empty()) {
    put_line(std::exchange(partial_, {}));
  }
}

bool WorkerLog::show(bool last) {
  if (!logs_.show_) return false;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (!logs_.write_(pending_)) break;
    long before = shown_;
    read_lines(last);
    logs_.count_later();
    if (pending_.empty() && shown_ == before) return false;
  }
  if (!last) {
    logs_.behind_.insert(this);
    logs_.show_later();
  }
  return true;
}

std::string WorkerLog::tail(int64_t end) const {
  UniqueFd file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return "";
  off_t last = std::min<off_t>(info.st_size, end_);
  if (end >= 0) last = std::min<off_t>(last, end);
  off_t begin = std::max<off_t>(begin_, last - kTailBytes);
  std::string text(static_cast<size_t>(std::max<off_t>(0, last - begin)), '\0');
  ssize_t size = ::pread(file.get(), text.data(), text.size(), begin);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  if (begin > begin_) text.erase(0, text.find('\n') + 1);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace manta
