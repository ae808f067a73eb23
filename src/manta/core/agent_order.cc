#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/io/poll_internal.h"

namespace manta {
namespace {

constexpr const char* kMagic = "manta-node-1";
constexpr size_t kMaxOrder = 4096;
constexpr const char* kDigits = "0123456789abcdef";

template <class Bytes>
std::string hex_of(const Bytes& bytes) {
  std::string text;
  for (auto each : bytes) {
    auto byte = static_cast<unsigned char>(each);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// Empty if it is not hexadecimal.
std::string bytes_of(const std::string& hex) {
  std::string bytes;
  if (hex.size() % 2 != 0 || hex.find_first_not_of(kDigits) != std::string::npos) return bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace

std::string AgentOrder::text() const {
  return str(kMagic, " ", host, " ", port, " ", hex_of(token), " ", hex_of(build_id), " ",
             started_as, "\n");
}

std::string AgentOrder::read_line(int fd, std::chrono::milliseconds patience) {
  std::string text;
  Deadline deadline = Deadline::after(patience);
  for (char each = 0; text.size() < kMaxOrder; text += each) {
    if (!poll_until(fd, POLLIN, deadline)) {
      throw Error(ErrorKind::kTimeout, str("no whole line came on standard input in ",
                                           static_cast<double>(patience.count()) / 1000,
                                           " s; it needs the one that the driver writes for it"));
    }
    if (::read(fd, &each, 1) != 1 || each == '\n') break;
  }
  return text;
}

AgentOrder AgentOrder::parse(const std::string& text) {
  std::istringstream in(text);
  AgentOrder order;
  std::string magic, token, build;
  in >> magic >> order.host >> order.port >> token >> build >> order.started_as;
  order.token = bytes_of(token);
  build = bytes_of(build);
  if (in.fail() || magic != kMagic || order.token.empty() ||
      build.size() != order.build_id.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                "what a node's agent was given is not what a driver writes for it");
  }
  std::copy(build.begin(), build.end(), order.build_id.begin());
  return order;
}

}  // namespace manta
