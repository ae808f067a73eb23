#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "manta/core/gang_placement_internal.h"

namespace manta {

const char* to_string(Placement placement) {
  switch (placement) {
    case Placement::kPack:
      return "PACK";
    case Placement::kSpread:
      return "SPREAD";
    case Placement::kStrictPack:
      return "STRICT_PACK";
    case Placement::kStrictSpread:
      return "STRICT_SPREAD";
  }
  return "unknown";
}

std::string describe_labels(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += (text.empty() ? "" : ", ") + name + "=" + value;
  }
  return text;
}

bool has_labels(const Labels& has, const Labels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    return std::find(has.begin(), has.end(), label) != has.end();
  });
}

std::vector<size_t> by_size(const std::vector<Request>& asked) {
  std::vector<size_t> order(asked.size());
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](size_t i) {
    const Resources& each = asked[i].resources;
    return std::tuple(each.gpus, each.cpus, each.memory, each.custom.size());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return size(a) > size(b); });
  return order;
}

namespace {

using Places = std::vector<size_t>;  // the place of each request in `nodes_`
constexpr size_t kNowhere = static_cast<size_t>(-1);

class Gang {
 public:
  Gang(std::vector<PlaceableNode>& nodes, const std::vector<Request>& asked)
      : nodes_(nodes), asked_(asked), order_(by_size(asked)), kind_(asked.size()) {
    for (size_t i = 0; i < asked.size(); ++i) {
      auto same = std::find(kinds_.begin(), kinds_.end(), asked[i]);
      kind_[i] = static_cast<size_t>(same - kinds_.begin());
      if (same == kinds_.end()) kinds_.push_back(asked[i]);
    }
  }

  // The fullest node that has room for all.
  std::optional<Places> on_one_node() const {
    size_t best = kNowhere;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (best != kNowhere && nodes_[node].room.cpus() >= nodes_[best].room.cpus()) continue;
      Room room = nodes_[node].room;
      if (fill(room, node, order_) == asked_.size()) best = node;
    }
    if (best == kNowhere) return std::nullopt;
    return Places(asked_.size(), best);
  }

  // First uses the nodes that have room for most of the requests.
  std::optional<Places> on_few_nodes() {
    if (auto one = on_one_node()) return one;
    std::vector<std::pair<size_t, size_t>> by_room;  // number of requests, node
    for (size_t node = 0; node < nodes_.size(); ++node) {
      Room room = nodes_[node].room;
      if (size_t count = fill(room, node, order_)) by_room.emplace_back(count, node);
    }
    std::stable_sort(by_room.begin(), by_room.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    Places places(asked_.size(), kNowhere);
    std::vector<size_t> left = order_;
    for (const auto& [count, node] : by_room) {
      if (left.empty()) break;
      fill(nodes_[node].room, node, left, &places);
      std::erase_if(left, [&](size_t i) { return places[i] != kNowhere; });
    }
    if (!left.empty()) return std::nullopt;
    return places;
  }

  // Places each request on the node that has the fewest of this gang; among several such nodes, on
  // the one with the most room.
  std::optional<Places> on_many_nodes() {
    Places places(asked_.size(), kNowhere);
    std::vector<size_t> members(nodes_.size());
    for (size_t i : order_) {
      size_t best = kNowhere;
      for (size_t node = 0; node < nodes_.size(); ++node) {
        if (best != kNowhere && (members[node] > members[best] ||
                                 (members[node] == members[best] &&
                                  nodes_[node].room.cpus() <= nodes_[best].room.cpus()))) {
          continue;
        }
        if (is_good_for(node, i)) best = node;
      }
      if (best == kNowhere) return std::nullopt;
      nodes_[best].room.take(asked_[i].resources);
      ++members[best];
      places[i] = best;
    }
    return places;
  }

  // A matching of requests and nodes: if a request finds no free node, requests that were placed
  // before it move.
  std::optional<Places> on_different_nodes() {
    if (asked_.size() > nodes_.size()) return std::nullopt;
    std::vector<std::vector<bool>> good(kinds_.size(), std::vector<bool>(nodes_.size()));
    std::vector<size_t> choices(kinds_.size());
    for (size_t i = 0; i < asked_.size(); ++i) {
      if (choices[kind_[i]] > 0) continue;
      for (size_t node = 0; node < nodes_.size(); ++node) {
        good[kind_[i]][node] = is_good_for(node, i);
        choices[kind_[i]] += good[kind_[i]][node];
      }
      if (choices[kind_[i]] == 0) return std::nullopt;
    }
    std::vector<size_t> order = order_;  // those with few choices first
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return choices[kind_[a]] < choices[kind_[b]]; });
    Places places(asked_.size(), kNowhere);
    std::vector<size_t> taken_by(nodes_.size(), kNowhere);
    std::vector<bool> seen;
    std::function<bool(size_t)> find = [&](size_t i) {
      const auto& fits = good[kind_[i]];
      for (size_t node = 0; node < nodes_.size(); ++node) {
        if (!fits[node] || taken_by[node] != kNowhere) continue;
        taken_by[node] = i;
        places[i] = node;
        return true;
      }
      for (size_t node = 0; node < nodes_.size(); ++node) {
        if (!fits[node] || seen[node]) continue;
        seen[node] = true;
        if (!find(taken_by[node])) continue;
        taken_by[node] = i;
        places[i] = node;
        return true;
      }
      return false;
    };
    for (size_t i : order) {
      seen.assign(nodes_.size(), false);
      if (!find(i)) return std::nullopt;
    }
    return places;
  }

 private:
  bool is_good_for(size_t node, size_t request) const {
    return nodes_[node].room.has(asked_[request].resources) &&
           has_labels(*nodes_[node].labels, asked_[request].labels);
  }

  // Puts as many of `which` on the node as it has room for, and returns how many.
  size_t fill(Room& room, size_t node, const std::vector<size_t>& which,
              Places* places = nullptr) const {
    size_t count = 0;
    std::vector<bool> full(kinds_.size());
    size_t kinds_full = 0;
    for (size_t i : which) {
      if (full[kind_[i]]) continue;
      if (has_labels(*nodes_[node].labels, asked_[i].labels) && room.take(asked_[i].resources)) {
        ++count;
        if (places) (*places)[i] = node;
      } else {
        full[kind_[i]] = true;
        if (++kinds_full == kinds_.size()) break;
      }
    }
    return count;
  }

  std::vector<PlaceableNode>& nodes_;
  const std::vector<Request>& asked_;
  const std::vector<size_t> order_;
  std::vector<Request> kinds_;  // the different requests
  std::vector<size_t> kind_;    // of each request
};

}  // namespace

std::optional<std::vector<size_t>> place_gang(std::vector<PlaceableNode> nodes,
                                              const std::vector<Request>& asked,
                                              Placement placement) {
  if (asked.empty()) return Places();
  Gang gang(nodes, asked);
  std::optional<Places> places;
  switch (placement) {
    case Placement::kPack:
      places = gang.on_few_nodes();
      break;
    case Placement::kSpread:
      places = gang.on_many_nodes();
      break;
    case Placement::kStrictPack:
      places = gang.on_one_node();
      break;
    case Placement::kStrictSpread:
      places = gang.on_different_nodes();
      break;
  }
  if (!places) return std::nullopt;
  for (size_t& place : *places) place = nodes[place].index;
  return places;
}

}  // namespace manta
