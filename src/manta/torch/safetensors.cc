#include "manta/torch/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/file_internal.h"

namespace manta {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr std::string_view kMetadata = "__metadata__";
// A header has three levels: tensors, their fields, shapes.
constexpr JsonLimits kLimits{.bytes = kMaxHeaderBytes, .depth = 3};
constexpr size_t kMaxDimensions = 64;  // the limit of torch's own iterators

struct TypeName {
  std::string_view name;
  torch::ScalarType type;
};
// In the order by which the reference implementation sorts tensors, last first.
constexpr TypeName kTypes[] = {
    {"BOOL", torch::kBool},
    {"U8", torch::kUInt8},
    {"I8", torch::kInt8},
    {"F8_E5M2", torch::kFloat8_e5m2},
    {"F8_E4M3", torch::kFloat8_e4m3fn},
    {"F8_E8M0", c10::ScalarType::Float8_e8m0fnu},
    {"I16", torch::kInt16},
    {"U16", torch::kUInt16},
    {"F16", torch::kFloat16},
    {"BF16", torch::kBFloat16},
    {"I32", torch::kInt32},
    {"U32", torch::kUInt32},
    {"F32", torch::kFloat32},
    {"C64", torch::kComplexFloat},
    {"F64", torch::kFloat64},
    {"I64", torch::kInt64},
    {"U64", torch::kUInt64},
};

size_t type_index(const NamedTensor& item) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].type == item.tensor.scalar_type()) return i;
  }
  throw Error(ErrorKind::kInvalidArgument,
              str("safetensors: tensor '", item.name, "' is of type ", item.tensor.dtype().name(),
                  ", which the format does not know; convert it first"));
}

struct Mapping {
  explicit Mapping(const std::string& path) {
    // O_NONBLOCK: opening a pipe would wait for its other end. A link is fine: caches of models
    // consist of links, and a checkpoint's files have been checked before.
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd && errno == ENOENT) throw Error(ErrorKind::kNotFound, path + " does not exist");
    if (!fd) throw_errno("cannot open " + path);
    size = train::check_regular(fd.get(), path);
    if (size == 0) return;
    // Writable and private: a program that changes a tensor gets its own copy of the page.
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0);
    if (mapped == MAP_FAILED) throw_errno("cannot map " + path);
    data = static_cast<char*>(mapped);
  }
  ~Mapping() {
    if (data) ::munmap(data, size);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* data = nullptr;
  uint64_t size = 0;
};

struct Entry {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), mapping_(std::make_shared<Mapping>(path)) {}

  Safetensors read() {
    Json header = parse_header();
    Safetensors result;
    std::vector<Entry> entries;
    for (auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        result.metadata = parse_metadata(value);
      } else {
        entries.push_back(parse_entry(name, value));
      }
    }
    check_offsets(entries);
    for (const Entry& entry : entries) result.tensors.emplace(entry.name, tensor_of(entry));
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kCorrupt, str(path_, " is not a valid safetensors file: ", what));
  }

  Json parse_header() {
    if (mapping_->size < kLengthBytes) fail(str("it has only ", mapping_->size, " bytes"));
    uint64_t length = 0;
    std::memcpy(&length, mapping_->data, sizeof(length));
    if (length > kMaxHeaderBytes || length > mapping_->size - kLengthBytes) {
      fail(str("its header would have ", length, " bytes, the file has ", mapping_->size));
    }
    data_begin_ = kLengthBytes + length;
    const char* text = mapping_->data + kLengthBytes;
    if (length == 0 || text[0] != '{') fail("its header is not a JSON object");
    return parse_json({text, length}, str(path_, " is not a valid safetensors file: its header"),
                      kLimits);
  }

  std::map<std::string, std::string> parse_metadata(const Json& value) const {
    std::map<std::string, std::string> metadata;
    if (!value.is_object()) fail("__metadata__ is not an object");
    for (auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(str("__metadata__ '", key, "' is not a string"));
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  uint64_t parse_number(const std::string& name, const Json& value) const {
    if (!value.is_number_unsigned()) {
      fail(str("tensor '", name, "': ", short_text(value), " is not a size"));
    }
    return value.get<uint64_t>();
  }

  Entry parse_entry(const std::string& name, const Json& value) const {
    auto bad = [&](const std::string& what) { fail(str("tensor '", name, "' ", what)); };
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      bad("must have dtype, shape and data_offsets");
    }
    const Json& dtype = value["dtype"];
    const Json& shape = value["shape"];
    const Json& offsets = value["data_offsets"];
    if (!dtype.is_string()) bad("has a dtype that is not a string");
    if (!shape.is_array()) bad("has a shape that is not an array");
    if (shape.size() > kMaxDimensions) bad(str("has ", shape.size(), " dimensions"));
    if (!offsets.is_array() || offsets.size() != 2) bad("must have two data_offsets");

    auto type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& known) {
      return known.name == dtype.get_ref<const std::string&>();
    });
    if (type == std::end(kTypes)) bad(str("has the unknown dtype ", short_text(dtype)));
    Entry entry{
        name, type->type, {}, parse_number(name, offsets[0]), parse_number(name, offsets[1])};
    bool is_empty = false;
    uint64_t bytes = c10::elementSize(entry.type);
    for (const Json& dimension : shape) {
      uint64_t size = parse_number(name, dimension);
      if (size > kMaxBytes) bad("is too large");
      entry.shape.push_back(static_cast<int64_t>(size));
      is_empty = is_empty || size == 0;
      // Checked for an empty tensor, too: torch multiplies its other dimensions.
      if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) bad("is too large");
      if (bytes > kMaxBytes) bad("is too large");
    }
    if (is_empty) bytes = 0;
    if (entry.begin > entry.end || entry.end - entry.begin != bytes) {
      bad(str("needs ", bytes, " bytes for its shape, but is at [", entry.begin, ", ", entry.end,
              ")"));
    }
    return entry;
  }

  // Tensors follow each other without overlaps and holes, up to the end of the file.
  void check_offsets(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    uint64_t end = 0;
    uint64_t available = mapping_->size - data_begin_;
    for (const Entry& entry : entries) {
      if (entry.begin != end) {
        fail(str("tensor '", entry.name, "' begins at ", entry.begin,
                 ", the one before it ends at ", end));
      }
      if (entry.end > available) {
        fail(str("tensor '", entry.name, "' ends at ", entry.end, " of ", available,
                 " bytes; the file is cut off"));
      }
      end = entry.end;
    }
    if (end != available) fail(str(available - end, " bytes after the last tensor"));
  }

  torch::Tensor tensor_of(const Entry& entry) const {
    auto options = torch::TensorOptions().dtype(entry.type);
    char* data = mapping_->data + data_begin_ + entry.begin;
    bool is_aligned = reinterpret_cast<uintptr_t>(data) % c10::elementSize(entry.type) == 0;
    if (is_aligned && entry.begin != entry.end) {
      return torch::from_blob(
          data, entry.shape, [mapping = mapping_](void*) {}, options);
    }
    torch::Tensor tensor = torch::empty(entry.shape, options);
    if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), data, tensor.nbytes());
    return tensor;
  }

  std::string path_;
  std::shared_ptr<Mapping> mapping_;
  uint64_t data_begin_ = 0;
};

}  // namespace

Safetensors read_safetensors(const std::string& path) { return Reader(path).read(); }

std::vector<CheckpointFolder::Bytes> SafetensorsImage::parts() const {
  std::vector<CheckpointFolder::Bytes> parts = {{header.data(), header.size()}};
  for (const NamedTensor& item : tensors) {
    if (item.tensor.nbytes() == 0) continue;
    parts.push_back({item.tensor.const_data_ptr(), item.tensor.nbytes()});
  }
  return parts;
}

SafetensorsImage make_safetensors(std::vector<NamedTensor> tensors,
                                  const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    size_t type_a = type_index(a);
    size_t type_b = type_index(b);
    return type_a != type_b ? type_a > type_b : a.name < b.name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  uint64_t offset = 0;
  size_t values = 2 + metadata.size();
  std::set<std::string_view> names = {kMetadata};
  for (const NamedTensor& item : tensors) {
    if (!names.insert(item.name).second) {
      throw Error(ErrorKind::kInvalidArgument, str("safetensors: '", item.name,
                                                   "' cannot be the name of a tensor, or is that "
                                                   "of two"));
    }
    MANTA_CHECK(item.tensor.is_cpu() && item.tensor.is_contiguous(), item.name);
    uint64_t end = offset + item.tensor.nbytes();
    header[item.name] = {{"dtype", kTypes[type_index(item)].name},
                         {"shape", item.tensor.sizes().vec()},
                         {"data_offsets", {offset, end}}};
    offset = end;
    values += 6 + static_cast<size_t>(item.tensor.dim());  // as `count_values` counts them
  }
  std::string text = header.dump();
  if (text.size() > kLimits.bytes || values > kLimits.values) {
    throw Error(ErrorKind::kInvalidArgument,
                str("safetensors: ", tensors.size(), " tensors make a header of ", text.size(),
                    " bytes and ", values, " values, which would not be read again (at most ",
                    kLimits.bytes, " bytes and ", kLimits.values,
                    " values are): put them into several files"));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  std::string image(sizeof(length), '\0');
  std::memcpy(image.data(), &length, sizeof(length));
  return {image + text, std::move(tensors)};
}

}  // namespace manta
