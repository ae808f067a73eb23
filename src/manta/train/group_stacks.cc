// The stacks of a group that hangs, each taken on the node of its process.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/process_stacks_internal.h"
#include "manta/core/remote.h"
#include "manta/train/group_internal.h"

namespace manta::train {
namespace {

using std::chrono::milliseconds;

// Of the time that there is, what is left for the answer to travel.
constexpr milliseconds kForTheWay{2000};

// A task on that node. It may look at processes of the run: see allow_stacks in member.cc.
std::vector<std::string> stacks_on_node(const std::vector<int32_t>& pids, int64_t patience_ms) {
  Deadline deadline = Deadline::after(milliseconds(patience_ms));
  std::vector<std::string> stacks;
  for (int32_t pid : pids) stacks.push_back(process_stacks(pid, deadline));
  return stacks;
}

struct OnNode {
  std::vector<int32_t> pids = {};
  ObjectRef<std::vector<std::string>> stacks = {};
  std::string error = {};
};

}  // namespace

std::string Group::stacks(Deadline deadline) {
  std::vector<std::pair<std::string, std::optional<Join>>> members;
  {
    std::lock_guard lock(loop_.mutex);
    for (const Seat& seat : seats_) members.emplace_back(seat.name, seat.joined);
  }
  std::map<uint32_t, OnNode> others;
  for (const auto& [name, joined] : members)
    if (joined && joined->node != 0) others[joined->node].pids.push_back(joined->pid);
  milliseconds patience(deadline.poll_milliseconds());
  for (auto& [node, on] : others) {
    try {
      // It holds nothing, so that it need not wait for what those that hang hold.
      on.stacks =
          remote({.resources = {.cpus = 0},
                  .max_retries = 0,
                  .name = "stacks",
                  .labels = {{"id", std::to_string(node)}}},
                 stacks_on_node, on.pids, std::max(patience - kForTheWay, patience / 2).count());
    } catch (const Error& error) {
      on.error = error.what();
    }
  }
  auto elsewhere = [&](const Join& joined) -> std::string {
    OnNode& on = others.at(joined.node);
    try {
      if (!on.error.empty())
        return str("  on another node, from which it did not come: ", on.error, "\n");
      auto found = std::find(on.pids.begin(), on.pids.end(), joined.pid) - on.pids.begin();
      return on.stacks.get(milliseconds(deadline.poll_milliseconds()))[static_cast<size_t>(found)];
    } catch (const Error& error) {
      on.error = error.what();
      return str("  on another node, from which it did not come: ", on.error, "\n");
    }
  };
  std::string text;
  for (const auto& [name, joined] : members) {
    text += str(text.empty() ? "" : "\n", name);
    if (!joined) {
      text += "\n  has not joined\n";
    } else {
      text += str(" (pid ", joined->pid, ")\n",
                  joined->node != 0 ? elsewhere(*joined) : process_stacks(joined->pid, deadline));
    }
  }
  return text;
}

}  // namespace manta::train
