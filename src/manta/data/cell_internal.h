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
/// at most `widest` columns of a terminal, 3 or more (then it ends in "...").
std::string printable(std::string_view text, size_t widest = kWidestCell);

/// A value of a column for people, cut to `kWidestCell` columns. Of a dictionary, the value
/// only; of a list, as many elements as there is room for.
std::string cell_text(const arrow::Array& column, int64_t row);

/// How many columns of a terminal the UTF-8 text takes.
size_t width_of(std::string_view text);
/// Of one character: none if it combines with the one before, two of East Asian ones and emoji.
size_t width_of_character(uint32_t character);

}  // namespace manta::data
