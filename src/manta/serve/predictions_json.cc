#include <arrow/api.h>
#include <arrow/util/utf8.h>

#include <charconv>
#include <cmath>

#include "manta/io/arrow_status_internal.h"
#include "manta/serve/predictions_json_internal.h"

namespace manta::serve {
namespace {

template <class T>
void append_number(std::string& out, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
      return;
    }
  }
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out.append(text, end);
}

void append_values(std::string& out, const arrow::Array& array, int64_t begin, int64_t count);

// Calls `append` for each value that is not missing, and separates them.
template <class Append>
void append_each(std::string& out, const arrow::Array& array, int64_t begin, int64_t count,
                 const Append& append) {
  for (int64_t i = begin; i < begin + count; ++i) {
    if (i > begin) out += ',';
    if (array.IsNull(i)) {
      out += "null";
    } else {
      append(i);
    }
  }
}

template <class ArrayType>
void append_numbers(std::string& out, const arrow::Array& array, int64_t begin, int64_t count) {
  const auto& values = static_cast<const ArrayType&>(array);
  append_each(out, array, begin, count, [&](int64_t i) { append_number(out, values.Value(i)); });
}

template <class ArrayType>
void append_strings(std::string& out, const arrow::Array& array, int64_t begin, int64_t count) {
  const auto& values = static_cast<const ArrayType&>(array);
  append_each(out, array, begin, count,
              [&](int64_t i) { append_json_string(out, values.GetView(i)); });
}

template <class ArrayType>
void append_lists(std::string& out, const arrow::Array& array, int64_t begin, int64_t count) {
  const auto& lists = static_cast<const ArrayType&>(array);
  append_each(out, array, begin, count, [&](int64_t i) {
    out += '[';
    append_values(out, *lists.values(), lists.value_offset(i), lists.value_length(i));
    out += ']';
  });
}

void append_values(std::string& out, const arrow::Array& array, int64_t begin, int64_t count) {
  switch (array.type_id()) {
    case arrow::Type::FLOAT:
      return append_numbers<arrow::FloatArray>(out, array, begin, count);
    case arrow::Type::DOUBLE:
      return append_numbers<arrow::DoubleArray>(out, array, begin, count);
    case arrow::Type::INT8:
      return append_numbers<arrow::Int8Array>(out, array, begin, count);
    case arrow::Type::INT16:
      return append_numbers<arrow::Int16Array>(out, array, begin, count);
    case arrow::Type::INT32:
      return append_numbers<arrow::Int32Array>(out, array, begin, count);
    case arrow::Type::INT64:
      return append_numbers<arrow::Int64Array>(out, array, begin, count);
    case arrow::Type::UINT8:
      return append_numbers<arrow::UInt8Array>(out, array, begin, count);
    case arrow::Type::UINT16:
      return append_numbers<arrow::UInt16Array>(out, array, begin, count);
    case arrow::Type::UINT32:
      return append_numbers<arrow::UInt32Array>(out, array, begin, count);
    case arrow::Type::UINT64:
      return append_numbers<arrow::UInt64Array>(out, array, begin, count);
    case arrow::Type::BOOL: {
      const auto& values = static_cast<const arrow::BooleanArray&>(array);
      return append_each(out, array, begin, count,
                         [&](int64_t i) { out += values.Value(i) ? "true" : "false"; });
    }
    case arrow::Type::STRING:
      return append_strings<arrow::StringArray>(out, array, begin, count);
    case arrow::Type::LARGE_STRING:
      return append_strings<arrow::LargeStringArray>(out, array, begin, count);
    case arrow::Type::LIST:
      return append_lists<arrow::ListArray>(out, array, begin, count);
    case arrow::Type::LARGE_LIST:
      return append_lists<arrow::LargeListArray>(out, array, begin, count);
    case arrow::Type::FIXED_SIZE_LIST:
      return append_lists<arrow::FixedSizeListArray>(out, array, begin, count);
    default:
      append_each(out, array, begin, count, [&](int64_t i) {
        append_json_string(out, check(array.GetScalar(i), "writing a prediction")->ToString());
      });
  }
}

}  // namespace

bool is_utf8(std::string_view text) {
  static const bool initialized = (arrow::util::InitializeUTF8(), true);
  return initialized && arrow::util::ValidateUTF8(text);
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr const char* kHex = "0123456789abcdef";
  bool valid = is_utf8(text);
  out += '"';
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else if (byte >= 0x80 && !valid) {
      out += "\\ufffd";
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_predictions(std::string& out, const arrow::RecordBatch& batch, int64_t begin,
                        int64_t count) {
  out += '{';
  for (int i = 0; i < batch.num_columns(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, batch.schema()->field(i)->name());
    out += ":[";
    append_values(out, *batch.column(i), begin, count);
    out += ']';
  }
  out += '}';
}

}  // namespace manta::serve
