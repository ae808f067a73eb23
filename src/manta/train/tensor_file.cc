#include <cstring>
#include <limits>
#include <optional>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/tensor_file_internal.h"

namespace manta::train {
namespace {

constexpr JsonLimits kTensorHeader{.bytes = 100'000'000, .depth = 3};

// How many bytes a tensor has; nothing if the number is impossibly large.
std::optional<uint64_t> bytes_of_tensor(const std::string& dtype,
                                        const std::vector<int64_t>& shape) {
  uint64_t size = size_of_dtype(dtype);
  bool is_empty = false;
  for (int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    is_empty = is_empty || dimension == 0;
    if (dimension > 0 && __builtin_mul_overflow(size, static_cast<uint64_t>(dimension), &size))
      return std::nullopt;
  }
  return is_empty ? 0 : size;
}

}  // namespace

size_t size_of_dtype(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

std::string tensor_file(const std::map<std::string, TensorBytes>& tensors) {
  Json header = Json::object();
  uint64_t at = 0;
  // Wide types first, so that each begins at a multiple of its size.
  std::string data;
  for (size_t width : {8, 4, 2, 1, 0}) {
    for (const auto& [name, tensor] : tensors) {
      if (size_of_dtype(tensor.dtype) != width) continue;
      auto size = bytes_of_tensor(tensor.dtype, tensor.shape);
      if (width == 0 || !size || *size != tensor.bytes.size()) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("the tensor '", name, "' has ", tensor.bytes.size(),
                        " bytes, which does not fit dtype '", tensor.dtype, "' and shape ",
                        Json(tensor.shape).dump()));
      }
      header[name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + *size}}};
      at += *size;
      data += tensor.bytes;
    }
  }
  if (!is_utf8(header) || header.contains("__metadata__"))
    throw Error(ErrorKind::kInvalidArgument,
                "names of tensors must be UTF-8, and none may be \"__metadata__\"");
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + text + data;
}

std::map<std::string, TensorBytes> read_tensor_file(const std::string& file,
                                                    const std::string& what) {
  auto corrupt = [&](const std::string& why) {
    throw Error(ErrorKind::kCorrupt, what + ": " + why);
  };
  uint64_t length = 0;
  if (file.size() < sizeof(length)) corrupt("it is too short for a file of tensors");
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > file.size() - sizeof(length)) corrupt("its header is longer than the file");
  Json header =
      parse_json(std::string_view(file).substr(sizeof(length), length), what, kTensorHeader);
  std::string_view data = std::string_view(file).substr(sizeof(length) + length);
  JsonFields fields(header, what);
  std::map<std::string, TensorBytes> tensors;
  uint64_t used = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    JsonFields one = fields.object(name);
    TensorBytes tensor;
    tensor.dtype = one.text("dtype");
    if (size_of_dtype(tensor.dtype) == 0)
      one.fail("dtype", "F64, F32, F16, BF16, I64, ... or BOOL");
    for (const Json& dimension : one.array("shape")) {
      if (!dimension.is_number_unsigned() || dimension.get<uint64_t>() > INT64_MAX)
        one.fail("shape", "whole numbers that are not negative");
      tensor.shape.push_back(dimension.get<int64_t>());
    }
    const Json& offsets = one.array("data_offsets");
    auto size = bytes_of_tensor(tensor.dtype, tensor.shape);
    bool fits = offsets.size() == 2 && offsets[0].is_number_unsigned() &&
                offsets[1].is_number_unsigned() && size && offsets[1] <= data.size() &&
                offsets[0] <= offsets[1] &&
                offsets[1].get<uint64_t>() - offsets[0].get<uint64_t>() == *size;
    if (!fits) one.fail("data_offsets", "where in the file the tensor's bytes are");
    used += *size;
    if (used > data.size()) corrupt("its tensors overlap");
    tensor.bytes = data.substr(offsets[0].get<size_t>(), *size);
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace manta::train
