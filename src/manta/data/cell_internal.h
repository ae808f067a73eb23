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

/// A value as text for people, cut to `kWidestCell` columns of the terminal. For a dictionary, the
/// value only; for a list, as many elements as fit.
std::string cell_text(const arrow::Array& column, int64_t row);

/// How many columns of a terminal the UTF-8 text takes.
size_t width_of(std::string_view text);
/// The width of one character: none if it combines with the character before, two for East Asian
/// characters and emoji.
size_t width_of_character(uint32_t character);

}  // namespace manta::data
