#include <arrow/api.h>

#include <algorithm>
#include <cstdio>

#include "manta/data/cell_internal.h"

namespace manta::data {
namespace {

// The UTF-8 character that a text begins with: its length, 0 if it begins with none, and its code.
struct Character {
  size_t length = 0;
  uint32_t code = 0;
};
Character first_character(std::string_view text) {
  auto byte = static_cast<unsigned char>(text[0]);
  size_t length = byte < 0x80 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
  if (length == 0 || byte > 0xf4 || length > text.size()) return {};
  uint32_t code = length == 1 ? byte : byte & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  bool surrogate = code >= 0xd800 && code < 0xe000;
  if (overlong || surrogate || code > 0x10ffff) return {};
  return {length, code};
}

// C1 controls, and marks that change the direction of what follows: a terminal would interpret
// them.
bool is_control(std::string_view character) {
  auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  auto second = static_cast<unsigned char>(character[1]);
  if (character.size() == 2) return first == 0xc2 && second < 0xa0;
  if (character.size() != 3 || first != 0xe2) return false;
  auto third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && ((third >= 0xa8 && third <= 0xae) || third == 0x8e || third == 0x8f)) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

std::string escaped(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\t") return "\\t";
  if (bytes == "\r") return "\\r";
  std::string text;
  for (char c : bytes) {
    char digits[5];
    std::snprintf(digits, sizeof(digits), "\\x%02x", static_cast<unsigned char>(c));
    text += digits;
  }
  return text;
}

std::string text_of(const arrow::Array& column, int64_t row);

std::string list_text(const arrow::Array& values, int64_t first, int64_t count) {
  std::string text = "[";
  for (int64_t i = 0; i < count && text.size() <= kWidestCell; ++i) {
    text += (i == 0 ? "" : ", ") + text_of(values, first + i);
  }
  return text + "]";
}

template <class ListArray>
std::string list_text(const arrow::Array& column, int64_t row) {
  auto& lists = static_cast<const ListArray&>(column);
  return list_text(*lists.values(), lists.value_offset(row), lists.value_length(row));
}

std::string struct_text(const arrow::StructArray& structs, int64_t row) {
  std::string text = "{";
  for (int i = 0; i < structs.num_fields() && text.size() <= kWidestCell; ++i) {
    text += (i == 0 ? "" : ", ") + structs.struct_type()->field(i)->name() + ": " +
            text_of(*structs.field(i), row);
  }
  return text + "}";
}

// The text is not escaped or cut yet, but not much longer than it will be.
std::string text_of(const arrow::Array& column, int64_t row) {
  if (column.IsNull(row)) return "null";
  constexpr size_t kEnough = 4 * kWidestCell + 1;  // bytes
  switch (column.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return std::string(
          static_cast<const arrow::BinaryArray&>(column).GetView(row).substr(0, kEnough));
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return std::string(
          static_cast<const arrow::LargeBinaryArray&>(column).GetView(row).substr(0, kEnough));
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return std::string(
          static_cast<const arrow::BinaryViewArray&>(column).GetView(row).substr(0, kEnough));
    case arrow::Type::FIXED_SIZE_BINARY:
      return std::string(
          static_cast<const arrow::FixedSizeBinaryArray&>(column).GetView(row).substr(0, kEnough));
    case arrow::Type::DICTIONARY: {
      auto& encoded = static_cast<const arrow::DictionaryArray&>(column);
      return text_of(*encoded.dictionary(), encoded.GetValueIndex(row));
    }
    case arrow::Type::EXTENSION:
      return text_of(*static_cast<const arrow::ExtensionArray&>(column).storage(), row);
    case arrow::Type::LIST:
      return list_text<arrow::ListArray>(column, row);
    case arrow::Type::LARGE_LIST:
      return list_text<arrow::LargeListArray>(column, row);
    case arrow::Type::FIXED_SIZE_LIST:
      return list_text<arrow::FixedSizeListArray>(column, row);
    case arrow::Type::MAP:
      return list_text<arrow::MapArray>(column, row);
    case arrow::Type::STRUCT:
      return struct_text(static_cast<const arrow::StructArray&>(column), row);
    default: {
      auto scalar = column.GetScalar(row);
      return scalar.ok() ? (*scalar)->ToString() : "?";
    }
  }
}

}  // namespace

size_t width_of(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    auto [length, code] = first_character(text);
    width += length == 0 ? 1 : width_of_character(code);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return width;
}

std::string printable(std::string_view text, size_t widest) {
  std::string result;
  size_t width = 0, before_dots = 0;  // how much of the text leaves room for the dots
  while (!text.empty()) {
    auto [length, code] = first_character(text);
    auto character = text.substr(0, length == 0 ? 1 : length);
    bool plain = length > 0 && !is_control(character);
    std::string shown = plain ? std::string(character) : escaped(character);
    width += plain ? width_of_character(code) : shown.size();
    if (width > widest) return result.substr(0, before_dots) + "...";
    result += shown;
    if (width <= widest - 3) before_dots = result.size();
    text.remove_prefix(character.size());
  }
  return result;
}

std::string cell_text(const arrow::Array& column, int64_t row) {
  return printable(text_of(column, row));
}

}  // namespace manta::data
