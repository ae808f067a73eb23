#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace manta::train {

/// A process of a group, and where it is; nothing if it has not joined.
struct StackOwner {
  std::string name;
  struct Place {
    uint32_t node = 0;  ///< 0: the driver's.
    int32_t pid = 0;
  };
  std::optional<Place> place = {};
};

/// How stacks are taken.
struct StackSource {
  /// Has a node take those of its processes; returns at once.
  std::function<void(uint32_t node, const std::vector<int32_t>& pids)> ask;
  /// Those of a process of this node.
  std::function<std::string(int32_t pid)> here;
  /// What has come from the nodes that were asked, in the order of their `pids`; waits for all, for
  /// as long as there is time.
  struct Answer {
    std::vector<std::string> stacks = {};
    std::string error = {};  ///< Why there are none.
  };
  std::function<std::map<uint32_t, Answer>()> collect;
};

/// Those of all, one after the other. A node that does not answer takes no time from the others:
/// this node's are taken while the others take theirs.
std::string stacks_of(const std::vector<StackOwner>& owners, const StackSource& source);

}  // namespace manta::train
