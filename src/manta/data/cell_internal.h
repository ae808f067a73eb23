#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace arrow {
class Array;
}

namespace manta::data {

inline constexpr size_t kWidestCell = 32;

/// The text on one line: control characters and bytes that are not UTF-8 as \n or \xff, and cut to
/// at most `widest` characters, 3 or more (then it ends in "...").
std::string printable(std::string_view text, size_t widest = kWidestCell);

/// A value of a column for people, cut to `kWidestCell` characters. Of a dictionary, the value
/// only; of a list, as many elements as there is room for.
std::string cell_text(const arrow::Array& column, int64_t row);

/// How many characters the UTF-8 text has.
size_t width_of(std::string_view text);

}  // namespace manta::data
