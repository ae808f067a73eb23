#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace manta::train {

/// A process of a group, and its place; no place if it has not joined.
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
  /// Asks a node to take the stacks of its processes; returns at once.
  std::function<void(uint32_t node, const std::vector<int32_t>& pids)> ask;
  /// Takes the stacks of a process of this node.
  std::function<std::string(int32_t pid)> here;
  /// The answer of a node, in the order of its `pids`. Waiting for the answers of all nodes ends at
  /// the deadline.
  struct Answer {
    std::vector<std::string> stacks = {};
    std::string error = {};  ///< Why there are no stacks.
  };
  std::function<std::map<uint32_t, Answer>()> collect;
};

/// The stacks of all processes, one after the other. A node that does not answer takes no time from
/// the others: this node takes its stacks while the others take theirs.
std::string stacks_of(const std::vector<StackOwner>& owners, const StackSource& source);

}  // namespace manta::train
