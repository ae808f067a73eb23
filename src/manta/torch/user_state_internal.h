#pragma once

#include <string>

#include "manta/base/json.h"

/// The values that a loop has `set` in a checkpoint, on their way to state.json and back.
namespace manta::detail {

/// Throws Error(kInvalidArgument) naming the key if the value could not be read again: a text that
/// is not UTF-8, bytes, or more than `depth` arrays and objects inside each other.
void require_storable(const std::string& key, const Json& value, int depth);

/// JSON has no infinities and no NaN. Puts null in their places and returns where they were:
/// {"/best_loss": "inf"}, by JSON pointers.
Json take_odd_numbers(Json& state);
/// Puts them back. Throws Error(kCorrupt) naming `path` if `numbers` is not a result of
/// take_odd_numbers.
void put_odd_numbers(Json& state, const Json& numbers, const std::string& path);

}  // namespace manta::detail
