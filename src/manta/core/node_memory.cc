#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/node_memory_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/io/bulk_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/tcp_transport_internal.h"

namespace manta {
namespace {

constexpr std::chrono::seconds kConnect{4};
// A lost node is noticed sooner, by its silence: a slow node may only be busy with others.
constexpr std::chrono::seconds kProgress{30};

std::shared_ptr<SharedMemory> fetch_memory(const TlsKey& key, const std::string& address,
                                           uint64_t number, uint64_t size, bool encrypted) {
  TcpAddress at = parse_address(address);
  Deadline deadline = Deadline::after(kConnect);
  auto transport = connect_tls(key, at.host, at.port, deadline);
  OutBuffer out(/*takes_fds=*/false);
  encode_message<FirstWord>(out, ReadMemory{number, size, encrypted});
  while (out.flush(*transport) == IoStatus::kWouldBlock) {
    if (!poll_until(transport->fd(), POLLOUT, deadline)) {
      throw Error(ErrorKind::kTimeout, str("node ", address, " takes nothing"));
    }
  }
  if (encrypted) return receive_bulk(*transport, size, kProgress);
  // Nothing comes before the other end has read the request. What comes is not encrypted.
  return receive_bulk(*leave_tls(*transport), size, kProgress, BulkCheck::kChecksum);
}

}  // namespace

uint64_t NodeMemory::keep(std::shared_ptr<SharedMemory> memory) {
  std::lock_guard lock(mutex_);
  kept_[next_] = std::move(memory);
  return next_++;
}

void NodeMemory::put(uint64_t number, std::shared_ptr<SharedMemory> memory) {
  std::lock_guard lock(mutex_);
  kept_[number] = std::move(memory);
}

std::shared_ptr<SharedMemory> NodeMemory::find(uint64_t number) const {
  std::lock_guard lock(mutex_);
  auto found = kept_.find(number);
  return found == kept_.end() ? nullptr : found->second;
}

void NodeMemory::drop(uint64_t number) {
  std::lock_guard lock(mutex_);
  kept_.erase(number);
}

MemoryMover::~MemoryMover() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void MemoryMover::fetch(const std::string& address, uint64_t number, uint64_t size, Done done) {
  auto job = [this, address, number, size, done] {
    std::shared_ptr<SharedMemory> memory;
    std::string why;
    try {
      memory = fetch_memory(key_, address, number, size, encrypt_);
    } catch (const std::exception& error) {
      why = error.what();
    }
    done(std::move(memory), why);
  };
  try {
    add(std::move(job));
  } catch (const Error& error) {
    done(nullptr, error.what());
  }
}

void MemoryMover::serve(const NodeMemory& memory, const std::shared_ptr<AsyncChannel>& channel,
                        Frame& first) {
  FirstWord message = decode_message<FirstWord>(first);
  auto* read = std::get_if<ReadMemory>(&message);
  if (!read) throw Error(ErrorKind::kCorrupt, "its first message does not ask for memory");
  auto found = memory.find(read->number);
  if (!found || found->size() < read->size || read->size == 0) {
    throw Error(ErrorKind::kNotFound, str("it asks for memory that is not here (", read->number,
                                          ", ", read->size, " bytes)"));
  }
  if (read->encrypted != encrypt_) {
    throw Error(ErrorKind::kCorrupt,
                str("it asks for memory ", read->encrypted ? "" : "that is not ",
                    "encrypted, and the run's encrypt_objects is ", encrypt_ ? "yes" : "no"));
  }
  std::shared_ptr<Transport> transport = channel->take_transport();
  auto check = BulkCheck::kByTransport;
  if (!encrypt_) {
    transport = leave_tls(*transport);
    check = BulkCheck::kChecksum;
  }
  add([found, transport, check, size = read->size] {
    try {
      send_bulk(*transport, {found->data(), size}, kProgress, check);
    } catch (const std::exception&) {
      // The process that wanted the memory reports it to the driver.
    }
  });
}

void MemoryMover::add(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  if (idle_ < jobs_.size() + 1 && threads_.size() < most_threads_) {
    try {
      threads_.push_back(start_thread("a thread that moves memory", [this] { run(); }));
    } catch (const Error&) {
      if (threads_.empty()) throw;  // otherwise the job waits for one of the existing threads
    }
  }
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void MemoryMover::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (stopping_) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

}  // namespace manta
