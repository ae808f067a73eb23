#pragma once

#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "manta/base/error_internal.h"
#include "manta/core/archive.h"
#include "manta/io/frame.h"

namespace manta {

/// A descriptor as a field of a message.
struct SharedFd {
  std::shared_ptr<UniqueFd> fd;

  SharedFd() = default;
  explicit SharedFd(UniqueFd owned) : fd(std::make_shared<UniqueFd>(std::move(owned))) {}
  /// The receiver's own; empty if none was sent.
  UniqueFd take() { return fd ? std::move(*fd) : UniqueFd(); }

  void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive) const {
    bool there = fd && fd->get() >= 0;
    archive(there);
    if (there) archive.fds.push_back({fd->get(), fd});
  }
  void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive) {
    bool there = false;
    archive(there);
    if (!there) return;
    if (archive.next_fd >= archive.fds.size()) {
      throw Error(ErrorKind::kCorrupt, "a message came without the descriptor that it names");
    }
    fd = std::make_shared<UniqueFd>(std::move(archive.fds[archive.next_fd++]));
  }
};

inline void append_keys(std::string& body, const std::vector<MemoryKey>& keys) {
  body.append(reinterpret_cast<const char*>(keys.data()), keys.size() * sizeof(MemoryKey));
  auto count = static_cast<uint32_t>(keys.size());
  body.append(reinterpret_cast<const char*>(&count), sizeof(count));
}

/// A message's place in `Variant`.
template <class Variant, class Message>
constexpr uint16_t message_type() {
  return []<size_t... I>(std::index_sequence<I...>) {
    size_t found = 0;
    ((std::is_same_v<Message, std::variant_alternative_t<I, Variant>> ? (found = I) : 0), ...);
    return static_cast<uint16_t>(found);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

/// Appends `Written`, which is serialised like a `Message`, as one frame.
template <class Variant, class Message, class Written>
void encode_as(OutBuffer& out, const Written& written) {
  OutArchive archive(out.begin(message_type<Variant, Message>()));
  archive(written);
  out.end(std::move(archive.fds));
}

/// Appends a message as one frame; the frame's type is the message's place in `Variant`, a
/// std::variant of all messages of one direction (such as ToHub in messages_internal.h).
template <class Variant, class Message>
void encode_message(OutBuffer& out, const Message& message) {
  encode_as<Variant, Message>(out, message);
}

/// The same for another host: where a descriptor would go, the body ends with keys of memory and
/// their number (4 bytes).
template <class Variant, class Message>
void encode_for_host(OutBuffer& out, const Message& message) {
  std::vector<MemoryKey> keys;
  std::string& body = out.begin(message_type<Variant, Message>());
  OutArchive archive(body);
  archive.keys = &keys;
  archive(message);
  append_keys(body, keys);
  out.end();
}

/// Cuts the keys off the body of a frame that came from another host.
inline std::vector<MemoryKey> take_keys(Frame& frame) {
  uint32_t count = 0;
  std::vector<MemoryKey> keys;
  size_t size = frame.body.size();
  if (size >= sizeof(count)) std::memcpy(&count, &frame.body[size - sizeof(count)], sizeof(count));
  if (size < sizeof(count) || count > kMaxFrameFds ||
      (size - sizeof(count)) / sizeof(MemoryKey) < count) {
    throw Error(ErrorKind::kCorrupt, "a message from another host does not end with its keys");
  }
  keys.resize(count);
  size_t begin = size - sizeof(count) - count * sizeof(MemoryKey);
  if (count > 0) std::memcpy(keys.data(), &frame.body[begin], count * sizeof(MemoryKey));
  frame.body = frame.body.substr(0, begin);
  return keys;
}

/// The message in a frame. Throws only Error, of kind kCorrupt if the frame holds no message.
/// Whatever the bytes say, it takes at most a small multiple of their number of memory.
template <class Variant>
Variant decode_message(Frame& frame, std::vector<MemoryKey> keys = {}) {
  InArchive archive(frame.body);
  archive.fds = std::move(frame.fds);
  archive.keys = std::move(keys);
  Variant message;
  auto read = [&]<size_t... I>(std::index_sequence<I...>) {
    return ((frame.type == I && (read_value(archive, message.template emplace<I>()), true)) || ...);
  };
  bool known = false;
  try {
    known = read(std::make_index_sequence<std::variant_size_v<Variant>>());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kCorrupt,
                str("a message of type ", frame.type, " cannot be read: ", error.what()));
  }
  if (!known)
    throw Error(ErrorKind::kCorrupt, str("received a message of unknown type ", frame.type));
  if (archive.remaining() > 0) {
    throw Error(ErrorKind::kCorrupt, str("a message of type ", frame.type, " has ",
                                         archive.remaining(), " bytes too many"));
  }
  return message;
}

}  // namespace manta
