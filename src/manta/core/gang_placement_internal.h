#pragma once

#include <optional>
#include <string>
#include <vector>

#include "manta/core/node_ledger_internal.h"
#include "manta/core/placement.h"

namespace manta {

/// What one process asks for.
struct Request {
  Resources resources;
  Labels labels = {};  ///< The node must have all of them.
  bool operator==(const Request&) const = default;
};

/// A node on which a gang may be placed.
struct PlaceableNode {
  Room room;
  const Labels* labels;
  size_t index;  ///< The caller's number for the node.
};

/// The `index` of the node for each request, in the order of the requests; nothing if there is no
/// place for all. Exact for equal requests and for the strict placements. For different requests
/// that are packed or spread it tries the large ones first, and may miss a place that only fits
/// exactly.
std::optional<std::vector<size_t>> place_gang(std::vector<PlaceableNode> nodes,
                                              const std::vector<Request>& asked,
                                              Placement placement);

/// The order in which requests are placed: large ones first, equal ones in the order given.
std::vector<size_t> by_size(const std::vector<Request>& asked);

bool has_labels(const Labels& has, const Labels& wanted);
/// "zone=a, disk=ssd".
std::string describe_labels(const Labels& labels);

}  // namespace manta
