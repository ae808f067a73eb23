#include <poll.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/io/bulk_internal.h"
#include "manta/io/checksum_internal.h"
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

void send_bulk(Transport& to, std::span<const uint8_t> bytes, std::chrono::nanoseconds patience,
               BulkCheck check) {
  const char* doing = "sending an object to";
  size_t sent = 0;
  auto send = [&](std::string_view rest) {
    while (!rest.empty() || to.has_unsent()) {
      auto [status, moved] = to.write(rest, {});
      rest.remove_prefix(moved);
      sent += moved;
      if (status == IoStatus::kClosed) throw_closed(doing, to, sent, bytes.size());
      if (status == IoStatus::kWouldBlock &&
          !poll_until(to.fd(), POLLOUT, Deadline::after(patience))) {
        throw_stuck(doing, to, sent, bytes.size(), patience);
      }
    }
  };
  std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (check == BulkCheck::kByTransport) return send(all);
  Checksum checksum;
  for (size_t at = 0; at < all.size(); at += kBulkBuffer) {
    auto piece = all.substr(at, kBulkBuffer);
    checksum.add(piece.data(), piece.size());
    send(piece);
  }
  send(checksum.hex());
}

std::shared_ptr<SharedMemory> receive_bulk(Transport& from, size_t size,
                                           std::chrono::nanoseconds patience, BulkCheck check) {
  const char* doing = "receiving an object from";
  auto buffer = ReceiveBuffer::take(kBulkBuffer);
  SharedMemoryWriter writer;
  Checksum checksum;
  std::deque<UniqueFd> none;
  size_t done = 0;
  // Fills the first `wanted` bytes of the buffer.
  auto receive = [&](size_t wanted) {
    for (size_t held = 0; held < wanted;) {
      auto [status, moved] = from.read({buffer.data() + held, wanted - held}, none, Blocking::kNo);
      held += moved;
      done += moved;
      if (status == IoStatus::kClosed) throw_closed(doing, from, done, size);
      if (status == IoStatus::kWouldBlock && !from.has_more() &&
          !poll_until(from.fd(), POLLIN, Deadline::after(patience))) {
        throw_stuck(doing, from, done, size, patience);
      }
    }
  };
  while (writer.size() < size) {
    size_t piece = std::min(kBulkBuffer, size - writer.size());
    receive(piece);
    if (check == BulkCheck::kChecksum) checksum.add(buffer.data(), piece);
    writer.write(buffer.data(), piece);
  }
  if (check == BulkCheck::kChecksum) {
    std::string expected = checksum.hex();
    receive(expected.size());
    if (std::string_view(buffer.data(), expected.size()) != expected) {
      throw Error(ErrorKind::kCorrupt, str(doing, " ", from.peer(), ": its ", size,
                                           " bytes have been damaged on the way"));
    }
  }
  return std::move(writer).finish();
}

}  // namespace manta
