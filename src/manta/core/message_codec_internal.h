#pragma once

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

/// Appends a message as one frame; the frame's type is the message's place in `Variant`, a
/// std::variant of all messages of one direction (such as ToHub in messages_internal.h).
template <class Variant, class Message>
void encode_message(OutBuffer& out, const Message& message) {
  constexpr auto type = [] {
    return []<size_t... I>(std::index_sequence<I...>) {
      size_t found = 0;
      ((std::is_same_v<Message, std::variant_alternative_t<I, Variant>> ? (found = I) : 0), ...);
      return static_cast<uint16_t>(found);
    }
    (std::make_index_sequence<std::variant_size_v<Variant>>());
  }();
  OutArchive archive(out.begin(type));
  archive(message);
  out.end(std::move(archive.fds));
}

/// The message in a frame. Throws Error and nothing else, of kind kCorrupt if it is none; whatever
/// the bytes say, it takes no more memory than a small multiple of their number.
template <class Variant>
Variant decode_message(Frame& frame) {
  InArchive archive(frame.body);
  archive.fds = std::move(frame.fds);
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
