#include <poll.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/io/bulk_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/receive_buffer.h"

namespace manta {
namespace {

constexpr size_t kBulkBuffer = 256u << 10;  // stays in the processor's cache

[[noreturn]] void throw_stuck(const char* doing, const Transport& transport, size_t done,
                              size_t size, std::chrono::nanoseconds patience) {
  throw Error(ErrorKind::kTimeout,
              str(doing, " ", transport.peer(), ": nothing has moved for ",
                  std::chrono::duration_cast<std::chrono::milliseconds>(patience).count(),
                  " ms, after ", done, " of ", size, " bytes"));
}

[[noreturn]] void throw_closed(const char* doing, const Transport& transport, size_t done,
                               size_t size) {
  throw Error(ErrorKind::kIo, str(doing, " ", transport.peer(), ": it closed the connection after ",
                                  done, " of ", size, " bytes"));
}

}  // namespace

void send_bulk(Transport& to, std::span<const uint8_t> bytes, std::chrono::nanoseconds patience) {
  const char* doing = "sending an object to";
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!rest.empty() || to.has_unsent()) {
    auto [status, moved] = to.write(rest, {});
    rest.remove_prefix(moved);
    size_t done = bytes.size() - rest.size();
    if (status == IoStatus::kClosed) throw_closed(doing, to, done, bytes.size());
    if (status == IoStatus::kWouldBlock &&
        !poll_until(to.fd(), POLLOUT, Deadline::after(patience))) {
      throw_stuck(doing, to, done, bytes.size(), patience);
    }
  }
}

std::shared_ptr<SharedMemory> receive_bulk(Transport& from, size_t size,
                                           std::chrono::nanoseconds patience) {
  const char* doing = "receiving an object from";
  auto buffer = ReceiveBuffer::take(kBulkBuffer);
  SharedMemoryWriter writer;
  std::deque<UniqueFd> none;
  size_t held = 0;
  while (writer.size() + held < size) {
    size_t room = std::min(kBulkBuffer, size - writer.size()) - held;
    auto [status, moved] = from.read({buffer.data() + held, room}, none, Blocking::kNo);
    held += moved;
    if (status == IoStatus::kClosed) throw_closed(doing, from, writer.size() + held, size);
    if (status == IoStatus::kWouldBlock && !from.has_more() &&
        !poll_until(from.fd(), POLLIN, Deadline::after(patience))) {
      throw_stuck(doing, from, writer.size() + held, size, patience);
    }
    if (held == kBulkBuffer || writer.size() + held == size) {
      writer.write(buffer.data(), held);
      held = 0;
    }
  }
  return std::move(writer).finish();
}

}  // namespace manta
