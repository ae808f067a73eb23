#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace manta {

/// On which nodes of a cluster processes are placed. On one machine all values mean the same,
/// except kStrictSpread: a group of two or more has no place there.
enum class Placement : uint8_t {
  /// On as few nodes as possible; a single task on the fullest node that has room for it, so that
  /// large pieces stay free.
  kPack,
  /// On as many nodes as possible; a single task on the node with the most free processors.
  kSpread,
  /// A group on one node, or not at all.
  kStrictPack,
  /// Each process of a group on another node, or not at all.
  kStrictSpread,
};

/// "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD".
const char* to_string(Placement placement);

/// What a node is called or has, by name, each name once: `{{"zone", "a"}, {"disk", "ssd"}}`. (Not
/// a map, as NamedAmounts.)
using Labels = std::vector<std::pair<std::string, std::string>>;

}  // namespace manta
