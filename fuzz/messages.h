#pragma once

#include <manta/base/names_internal.h>
#include <manta/core/message_codec_internal.h>
#include <manta/io/channel_internal.h>

#include <string>
#include <string_view>

namespace manta::fuzz {

/// An input is the type of a message (two bytes) and its body.
template <class Variant>
void decode_input(std::string_view input) {
  if (input.size() < 2) return;
  Frame frame;
  std::memcpy(&frame.type, input.data(), 2);
  frame.body = input.substr(2);
  decode_message<Variant>(frame);
}

/// The input that decodes to this message, which must be one without descriptors.
template <class Variant, class Message>
std::string input_of(const Message& message) {
  OutBuffer out;
  encode_message<Variant>(out, message);
  auto [write_end, read_end] = socket_pair();
  out.flush(write_end.get());
  FrameDecoder decoder;
  decoder.receive(read_end.get());
  Frame frame;
  decoder.next(&frame);
  return std::string(reinterpret_cast<const char*>(&frame.type), 2) + std::string(frame.body);
}

}  // namespace manta::fuzz
