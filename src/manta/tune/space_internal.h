#pragma once

#include <cstdint>
#include <string>

#include "manta/tune/assignment.h"
#include "manta/tune/space.h"

/// Operations on a space: count its grid points, draw from it, make a configuration, store it.
namespace manta::tune {

/// The number of points of all its grids together; 1 without a grid. Throws Error(kInvalidArgument)
/// if a grid is inside a choice, which would not visit all of the grid, or if there are more than
/// 2^40 points.
uint64_t grid_size(const Space& space);

/// One point: grids take their values at `grid_index`, which is below grid_size; the rest is drawn.
/// The last grid, in the order of paths, changes fastest.
Assignment draw(const Space& space, uint64_t grid_index, Random& random);

/// The configuration that an assignment stands for; `path` is the place of the space in the whole
/// space that was drawn from. Throws Error(kCorrupt) naming the path if something is not assigned,
/// or cannot be.
Json resolve(const Space& space, const Assignment& assignment, const std::string& path = "");

/// The JSON for files. A function, which cannot be stored, becomes null, and `whole` false.
Json to_json(const Space& space, bool* whole);
/// Throws Error(kCorrupt) that begins with `document`.
Space space_from_json(const Json& json, const std::string& document);

/// A key as a part of a path.
std::string path_part(const std::string& key);

}  // namespace manta::tune
