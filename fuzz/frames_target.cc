// Bytes that arrive on a socket, in pieces: the first byte says how large the pieces are.

#include <manta/base/names_internal.h>
#include <manta/io/channel_internal.h>
#include <manta/io/frame.h>
#include <sys/socket.h>

#include <algorithm>

#include "target.h"

namespace manta::fuzz::frames {

void run(std::string_view input) {
  if (input.empty()) return;
  size_t piece = 1 + static_cast<uint8_t>(input[0]);
  input.remove_prefix(1);
  auto [out, in] = socket_pair();
  FrameDecoder decoder(4096);
  Frame frame;
  while (!input.empty()) {
    size_t size = std::min(piece, input.size());
    if (::send(out.get(), input.data(), size, MSG_DONTWAIT) < 0) return;
    input.remove_prefix(size);
    while (decoder.receive(in.get(), MSG_DONTWAIT) == IoStatus::kDone) {
      while (decoder.next(&frame)) continue;
    }
  }
  out.reset();
  while (decoder.receive(in.get()) == IoStatus::kDone) {
    while (decoder.next(&frame)) continue;
  }
}

std::vector<std::string> seeds() {
  auto [out, in] = socket_pair();
  OutBuffer buffer;
  buffer.push(1, "");
  buffer.push(7, "hello");
  buffer.push(65535, std::string(300, 'x'));
  buffer.flush(out.get());
  std::string bytes(buffer.size() + 4096, 0);
  auto size = ::recv(in.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return {std::string(1, '\xff') + bytes, std::string(1, '\0') + bytes};
}

}  // namespace manta::fuzz::frames
