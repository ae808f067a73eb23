#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/log_streams_internal.h"
#include "manta/core/node_messages_internal.h"

namespace manta {
namespace {

constexpr std::chrono::milliseconds kLookIntoLogs{100};

int64_t size_of_file(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

}  // namespace

void LogStreams::follow(ProcessId process, std::string path) {
  streams_[process].path = std::move(path);
  look_later();
}

void LogStreams::finish(ProcessId process, std::function<void()> then) {
  auto found = streams_.find(process);
  if (found == streams_.end()) return then();
  found->second.end = size_of_file(found->second.path);
  found->second.then = std::move(then);
  look();
}

void LogStreams::finish_all(std::function<void()> then) {
  for (auto& [process, stream] : streams_) {
    if (stream.end < 0) stream.end = size_of_file(stream.path);
  }
  all_finished_ = std::move(then);
  look();
}

void LogStreams::look_later() {
  if (timer_ || streams_.empty()) return;
  timer_ = loop_.after(kLookIntoLogs, [this] {
    auto done = std::move(timer_);
    look();
    look_later();
  });
}

// Serves the streams in turns, so that one that writes much does not delay the ends of the others.
void LogStreams::look() {
  if (waits_for_driver_) return;
  std::vector<ProcessId> order;
  for (auto it = streams_.lower_bound(next_); it != streams_.end(); ++it)
    order.push_back(it->first);
  for (auto it = streams_.begin(); it != streams_.lower_bound(next_); ++it) {
    order.push_back(it->first);
  }
  bool more = true;
  while (more && driver_->out_to_flush().size() <= kMostPendingOutput) {
    more = false;
    for (ProcessId process : order) {
      auto found = streams_.find(process);
      if (found == streams_.end()) continue;
      if (driver_->out_to_flush().size() > kMostPendingOutput) {
        next_ = process;
        more = true;
        break;
      }
      Stream& stream = found->second;
      more = send(process, stream) || more;
      if (stream.end < 0 || stream.sent < stream.end) continue;
      auto then = std::move(stream.then);
      streams_.erase(found);
      if (then) then();
    }
  }
  if (more) {
    waits_for_driver_ = true;
    driver_->when_sent([this] {
      waits_for_driver_ = false;
      look();
    });
  } else if (streams_.empty() && all_finished_) {
    std::exchange(all_finished_, nullptr)();
  }
}

// Sends some of the new bytes. False if there were none.
bool LogStreams::send(ProcessId process, Stream& stream) {
  int64_t end = stream.end >= 0 ? stream.end : size_of_file(stream.path);
  if (end <= stream.sent) return false;
  UniqueFd file(::open(stream.path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::array<char, 65536> buffer;
  auto most = std::min(buffer.size(), static_cast<size_t>(end - stream.sent));
  ssize_t size = file ? ::pread(file.get(), buffer.data(), most, stream.sent) : 0;
  if (size <= 0) {
    if (stream.end >= 0) stream.sent = stream.end;  // the file has been truncated
    return false;
  }
  stream.sent += size;
  encode_message<FromAgent>(
      driver_->out(), AgentLog{process, std::string(buffer.data(), static_cast<size_t>(size))});
  return true;
}

}  // namespace manta
