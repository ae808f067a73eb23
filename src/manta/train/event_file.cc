#include <cstring>

#include "manta/io/crc32c_internal.h"
#include "manta/train/event_file_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {
namespace {

// Protocol buffers: each field is its number with the kind of its encoding, then the value.
class ProtoMessage {
 public:
  ProtoMessage& number(int field, uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  ProtoMessage& float64(int field, double value) {
    key(field, 1);
    fixed(value);
    return *this;
  }
  ProtoMessage& float32(int field, float value) {
    key(field, 5);
    fixed(value);
    return *this;
  }
  ProtoMessage& bytes(int field, const std::string& value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return bytes(field, value.bytes_); }
  template <class T>
  ProtoMessage& float64s(int field, const std::vector<T>& values) {
    ProtoMessage packed;
    for (T value : values) packed.fixed(static_cast<double>(value));
    return bytes(field, packed.bytes_);
  }
  const std::string& text() const { return bytes_; }

 private:
  void key(int field, unsigned kind) { varint(static_cast<uint64_t>(field) << 3 | kind); }
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  template <class T>
  void fixed(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::string bytes_;
};

constexpr uint64_t kDtFloat = 1, kDtString = 7;

ProtoMessage event_at(double time, int64_t step) {
  ProtoMessage event;
  event.float64(1, time).number(2, static_cast<uint64_t>(step));
  return event;
}

// A text stays as it is, anything else becomes JSON. TensorBoard refuses bytes that are not UTF-8.
std::string utf8_text(const Json& json) {
  if (!json.is_string()) return to_text(json);
  return parse_json(to_text(json), "a text").get<std::string>();
}

std::string summary_event(double time, int64_t step, const std::string& tag, ProtoMessage value) {
  value.bytes(1, utf8_text(tag));
  return event_at(time, step).message(5, ProtoMessage().message(1, value)).text();
}

ProtoMessage plugin_metadata(const std::string& plugin, const std::string& content) {
  ProtoMessage data;
  data.bytes(1, plugin).bytes(2, content);
  return ProtoMessage().message(1, data);
}

// A tensor of one dimension.
ProtoMessage tensor_of(uint64_t type, uint64_t size) {
  ProtoMessage shape = ProtoMessage().message(2, ProtoMessage().number(1, size));
  return ProtoMessage().number(1, type).message(2, shape);
}

std::string hyper_parameters(double time, const char* tag, int field, const ProtoMessage& info) {
  ProtoMessage value;
  value.message(9, plugin_metadata("hparams", ProtoMessage().message(field, info).text()));
  value.message(8, tensor_of(kDtFloat, 0));
  return summary_event(time, 0, tag, value);
}

// A google.protobuf.Value.
ProtoMessage struct_value(const Json& json) {
  ProtoMessage value;
  if (json.is_boolean()) return value.number(4, json.get<bool>() ? 1 : 0);
  if (json.is_number()) return value.float64(2, json.get<double>());
  return value.bytes(3, utf8_text(json));
}

std::string masked_crc(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  crc = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  return std::string(reinterpret_cast<const char*>(&crc), sizeof(crc));
}

}  // namespace

std::string event_record(const std::string& event) {
  uint64_t size = event.size();
  std::string length(reinterpret_cast<const char*>(&size), sizeof(size));
  return length + masked_crc(length) + event + masked_crc(event);
}

std::string version_event(double time) {
  return ProtoMessage().float64(1, time).bytes(3, "brain.Event:2").text();
}

std::string restart_event(double time, int64_t step) {
  constexpr uint64_t kStart = 1;
  return event_at(time, step).message(7, ProtoMessage().number(1, kStart)).text();
}

std::string scalar_event(double time, int64_t step, const std::string& name, double value) {
  return summary_event(time, step, name, ProtoMessage().float32(2, static_cast<float>(value)));
}

std::string text_event(double time, int64_t step, const std::string& name,
                       const std::string& text) {
  ProtoMessage value;
  value.message(9, plugin_metadata("text", ""));
  value.message(8, tensor_of(kDtString, 1).bytes(8, utf8_text(text)));
  return summary_event(time, step, name, value);
}

std::string histogram_event(double time, int64_t step, const std::string& name,
                            const Histogram& histogram) {
  ProtoMessage value;
  value.float64(1, histogram.min)
      .float64(2, histogram.max)
      .float64(3, static_cast<double>(histogram.count))
      .float64(4, histogram.sum)
      .float64(5, histogram.sum_of_squares)
      .float64s(6, histogram.limits)
      .float64s(7, histogram.counts);
  return summary_event(time, step, name, ProtoMessage().message(5, value));
}

std::string hyper_parameters_event(double time, const std::string& run,
                                   const std::map<std::string, Json>& parameters) {
  ProtoMessage info;
  for (const auto& [name, value] : parameters)
    info.message(1, ProtoMessage().bytes(1, utf8_text(name)).message(2, struct_value(value)));
  info.bytes(4, run).float64(5, time);
  return hyper_parameters(time, "_hparams_/session_start_info", 3, info);
}

std::string hyper_parameters_end_event(double time, bool succeeded) {
  constexpr uint64_t kSuccess = 1, kFailure = 2;
  ProtoMessage info;
  info.number(1, succeeded ? kSuccess : kFailure).float64(2, time);
  return hyper_parameters(time, "_hparams_/session_end_info", 4, info);
}

}  // namespace manta::train
