#include <arrow/api.h>

#include <charconv>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/npy_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta::data {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMostDimensions = 32;  // as numpy

[[noreturn]] void throw_damaged(const std::string& what) {
  throw Error(ErrorKind::kCorrupt,
              what + "; the file is no .npy file, or a damaged one: write it again");
}

[[noreturn]] void throw_refused(const std::string& what) {
  throw Error(ErrorKind::kInvalidArgument, what);
}

struct NpyType {
  const char* code;  // without the byte order
  std::shared_ptr<arrow::DataType> type;
  int64_t bytes;
};

const std::vector<NpyType>& npy_types() {
  static const std::vector<NpyType> types = {
      {"b1", arrow::boolean(), 1}, {"i1", arrow::int8(), 1},    {"u1", arrow::uint8(), 1},
      {"i2", arrow::int16(), 2},   {"u2", arrow::uint16(), 2},  {"i4", arrow::int32(), 4},
      {"u4", arrow::uint32(), 4},  {"i8", arrow::int64(), 8},   {"u8", arrow::uint64(), 8},
      {"f2", arrow::float16(), 2}, {"f4", arrow::float32(), 4}, {"f8", arrow::float64(), 8}};
  return types;
}

const NpyType& type_of_code(std::string_view code) {
  if (code.starts_with('>')) {
    throw_refused(str("its numbers are big-endian ('", printable(code),
                      "'); write it with array.astype(array.dtype.newbyteorder('<'))"));
  }
  for (const auto& type : npy_types()) {
    if (code.size() == 3 && (code[0] == '<' || code[0] == '|' || code[0] == '=') &&
        code.substr(1) == type.code) {
      return type;
    }
  }
  throw_refused(str("its elements are of the type '", printable(code),
                    "'; only booleans, integers and floating-point numbers of at most 64 bits are "
                    "read: convert it with array.astype"));
}

const NpyType& npy_type_of(const arrow::DataType& type) {
  for (const auto& each : npy_types()) {
    if (each.type->Equals(type)) return each;
  }
  throw_refused(str("numpy has no type for ", type.ToString()));
}

/// The dictionary of a header, exactly as Python prints it.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}

  void expect(char c) {
    skip_spaces();
    if (text_.empty() || text_[0] != c) fail();
    text_.remove_prefix(1);
  }
  bool take(char c) {
    skip_spaces();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view quoted() {
    skip_spaces();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) fail();
    size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) fail();
    auto result = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return result;
  }
  bool boolean() {
    skip_spaces();
    for (bool value : {true, false}) {
      std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    fail();
  }
  int64_t integer() {
    skip_spaces();
    int64_t value = 0;
    auto parsed = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (parsed.ec != std::errc() || value < 0 || value > kMaxRows) fail();
    text_.remove_prefix(static_cast<size_t>(parsed.ptr - text_.data()));
    take('L');  // of Python 2
    return value;
  }
  bool at_end() {
    skip_spaces();
    return text_.empty();
  }
  bool is_next(char c) {
    skip_spaces();
    return text_.starts_with(c);
  }
  [[noreturn]] void fail() const {
    throw_damaged(str("its header cannot be read at '", printable(text_), "'"));
  }

 private:
  void skip_spaces() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size()));
  }
  std::string_view text_;
};

std::vector<int64_t> parse_shape(HeaderText& text) {
  std::vector<int64_t> shape;
  text.expect('(');
  while (!text.take(')')) {
    shape.push_back(text.integer());
    if (shape.size() > kMostDimensions) throw_damaged("its header has more than 32 dimensions");
    if (!text.take(',')) {
      text.expect(')');
      break;
    }
  }
  return shape;
}

// The text of the header, and where the elements begin.
std::string_view header_text(std::string_view beginning, int64_t& data_offset) {
  if (!beginning.starts_with(kNpyMagic)) throw_damaged("it does not begin with \\x93NUMPY");
  if (beginning.size() < 12) throw_damaged("its header is cut off");
  int version = beginning[6];
  if (version < 1 || version > 3) {
    throw_refused(str("it is of version ", version, " of the format; 1 to 3 are read"));
  }
  auto byte = [&](size_t at) { return uint32_t{static_cast<uint8_t>(beginning[at])}; };
  size_t start = version == 1 ? 10 : 12;
  uint32_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > beginning.size() - start) {
    if (length + start > static_cast<size_t>(kMostNpyHeaderBytes)) {
      throw_refused(str("its header has ", length, " bytes, more than ", kMostNpyHeaderBytes,
                        "; only plain arrays are read"));
    }
    throw_damaged("its header is cut off");
  }
  data_offset = static_cast<int64_t>(start + length);
  return beginning.substr(start, length);
}

}  // namespace

int64_t NpyHeader::row_elements() const {
  int64_t elements = 1;
  for (size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

std::shared_ptr<arrow::DataType> NpyHeader::row_type() const {
  auto result = type;
  for (size_t i = shape.size(); i-- > 1;) {
    result = arrow::fixed_size_list(result, static_cast<int32_t>(shape[i]));
  }
  return result;
}

NpyHeader parse_npy_header(std::string_view beginning, int64_t size) {
  NpyHeader header;
  HeaderText text(header_text(beginning, header.data_offset));
  bool has_type = false, has_order = false, has_shape = false, fortran = false;
  text.expect('{');
  while (!text.take('}')) {
    auto key = text.quoted();
    text.expect(':');
    if (key == "descr" && !has_type) {
      if (!text.is_next('\'') && !text.is_next('"')) {
        throw_refused(
            "its elements are records of several fields; write each to a file of its own");
      }
      const NpyType& type = type_of_code(text.quoted());
      header.type = type.type;
      header.element_bytes = type.bytes;
      has_type = true;
    } else if (key == "fortran_order" && !has_order) {
      fortran = text.boolean();
      has_order = true;
    } else if (key == "shape" && !has_shape) {
      header.shape = parse_shape(text);
      has_shape = true;
    } else {
      text.fail();
    }
    if (!text.take(',')) {
      text.expect('}');
      break;
    }
  }
  if (!text.at_end()) text.fail();
  if (!has_type || !has_order || !has_shape) throw_damaged("its header lacks a field");
  if (header.shape.empty()) {
    throw_refused(
        "it is a single number; the first dimension counts the rows: write "
        "array.reshape(1)");
  }
  if (fortran && header.shape.size() > 1) {
    throw_refused("it is in Fortran order; write numpy.ascontiguousarray(array)");
  }
  check_npy_size(header, size);
  return header;
}

void check_npy_size(const NpyHeader& header, int64_t size) {
  int64_t bytes = header.element_bytes;
  for (size_t i = 0; i < header.shape.size(); ++i) {
    if (i > 0 && header.shape[i] > INT32_MAX) throw_refused("a dimension is too large");
    if (__builtin_mul_overflow(bytes, header.shape[i], &bytes) || bytes > kMaxRows) {
      throw_damaged("its header says that it has more elements than any file");
    }
  }
  // In an array without elements, a dimension may be any number.
  int64_t row = header.element_bytes;
  for (size_t i = 1; i < header.shape.size(); ++i) {
    if (__builtin_mul_overflow(row, header.shape[i], &row) || row > INT32_MAX) {
      throw_refused("a row of it has more than 2 GiB");
    }
  }
  if (size - header.data_offset != bytes) {
    throw_damaged(str("its header says that ", bytes, " bytes follow it, and there are ",
                      size - header.data_offset));
  }
}

Json npy_to_json(const NpyHeader& header) {
  return {{"type", str("<", npy_type_of(*header.type).code)},
          {"shape", header.shape},
          {"offset", header.data_offset}};
}

NpyHeader npy_from_json(const JsonFields& fields, int64_t size) {
  NpyHeader header;
  const NpyType& type = type_of_code(fields.text("type"));
  header.type = type.type;
  header.element_bytes = type.bytes;
  header.shape = row_counts(fields, "shape");
  if (header.shape.empty() || header.shape.size() > kMostDimensions) {
    fields.fail("shape", "1 to 32 dimensions");
  }
  header.data_offset = fields.integer("offset", 0, kMostNpyHeaderBytes);
  check_npy_size(header, size);
  return header;
}

std::string npy_header(const arrow::DataType& type, const std::vector<int64_t>& shape) {
  const NpyType& npy = npy_type_of(type);
  std::string dimensions;
  for (int64_t size : shape) dimensions += str(size, shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) dimensions.resize(dimensions.size() - 2);
  std::string text = str("{'descr': '", npy.bytes == 1 ? "|" : "<", npy.code,
                         "', 'fortran_order': False, 'shape': (", dimensions, "), }");
  // The elements begin at a multiple of 64.
  size_t length = (kNpyMagic.size() + 4 + text.size() + 1 + 63) / 64 * 64;
  text.resize(length - kNpyMagic.size() - 4 - 1, ' ');
  text += '\n';
  std::string header(kNpyMagic);
  header +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace manta::data
