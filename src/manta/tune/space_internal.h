#pragma once

#include <cstdint>
#include <string>

#include "manta/tune/assignment.h"
#include "manta/tune/space.h"

/// What is done with a space: counted, drawn from, made a configuration of, stored.
namespace manta::tune {

/// How many points its grids have together; 1 without a grid. Throws Error(kInvalidArgument) if a
/// grid is inside a choice, which would not walk all of it, or if there are more than 2^40.
uint64_t grid_size(const Space& space);

/// One point: that of the grids at `grid_index`, below grid_size, the rest drawn. The last grid, in
/// the order of paths, changes fastest.
Assignment draw(const Space& space, uint64_t grid_index, Random& random);

/// The configuration that an assignment stands for; `path` is where the space is in the whole that
/// was drawn from. Throws Error(kCorrupt) naming the path if
/// something is not assigned, or cannot be.
Json resolve(const Space& space, const Assignment& assignment, const std::string& path = "");

/// For files. What cannot be stored, a function, is null, and `whole` becomes false.
Json to_json(const Space& space, bool* whole);
/// Throws Error(kCorrupt) that begins with `document`.
Space space_from_json(const Json& json, const std::string& document);

/// A key as a part of a path.
std::string path_part(const std::string& key);

}  // namespace manta::tune
