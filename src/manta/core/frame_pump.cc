#include <sys/stat.h>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/frame_pump_internal.h"
#include "manta/core/messages_internal.h"

namespace manta {

void FramePump::start(std::function<void()> ended) {
  ended_ = std::move(ended);
  std::weak_ptr<FramePump> weak = weak_from_this();
  process_->start(
      [weak](Frame& frame) {
        if (auto self = weak.lock()) self->to_hub(frame);
      },
      [weak](const std::string& why) {
        auto self = weak.lock();
        if (!self) return;
        if (!why.empty()) log_warning("a process of this node: " + why);
        self->process_ended_ = true;
        if (self->hub_) self->close();  // else it closes when its frames can be sent
      });
}

void FramePump::connect(std::shared_ptr<AsyncChannel> hub) {
  hub_ = std::move(hub);
  for (auto& each : std::exchange(waiting_, {})) hub_->out().push(each.type, each.body);
  std::weak_ptr<FramePump> weak = weak_from_this();
  hub_->start(
      [weak](Frame& frame) {
        if (auto self = weak.lock()) self->to_process(frame);
      },
      [weak](const std::string&) {
        if (auto self = weak.lock()) self->close();
      });
  if (process_ended_) return close();
  go_on_when_sent();
}

void FramePump::go_on_when_sent() {
  hub_->when_sent([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->process_->resume();
  });
}

void FramePump::to_hub(Frame& frame) {
  std::vector<MemoryKey> keys;
  for (UniqueFd& fd : frame.fds) {
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) throw_errno("fstat of a process's memory");
    auto size = static_cast<uint64_t>(info.st_size);
    auto memory = SharedMemory::adopt(std::move(fd), size);
    keys.push_back({memory_->keep(std::move(memory)), size, node_, 0});
  }
  std::string& body =
      hub_ ? hub_->out().begin(frame.type) : waiting_.emplace_back(Waiting{frame.type, {}}).body;
  body.append(frame.body);
  append_keys(body, keys);
  if (hub_) hub_->out().end();
  size_t unsent = hub_ ? hub_->out_to_flush().size() : waiting_bytes_ += body.size();
  if (unsent <= kMostUnsent) return;
  process_->pause();
  if (hub_) go_on_when_sent();
}

void FramePump::to_process(Frame& frame) {
  std::vector<OutgoingFd> fds;
  for (const MemoryKey& key : take_keys(frame)) {
    auto memory = memory_->find(key.number);
    if (!memory) throw Error(ErrorKind::kCorrupt, "the driver names memory that is not here");
    fds.push_back({memory->fd(), memory});
  }
  bool with_memory = !fds.empty();
  process_->out().push(frame.type, frame.body, std::move(fds));
  if (with_memory) hub_->out().push(kPassedOn, "");
}

void FramePump::finish() {
  auto self = shared_from_this();
  process_->drain();
  process_ended_ = true;
  if (hub_) close();
}

void FramePump::close() {
  auto self = shared_from_this();
  process_->close();
  if (hub_ && !hub_->broken()) {
    hub_->when_sent([hub = hub_] { hub->close(); });  // the hub sees the end after all frames
  } else if (hub_) {
    hub_->close();
  }
  if (auto ended = std::exchange(ended_, nullptr)) ended();
}

}  // namespace manta
