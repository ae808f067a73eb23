// The stacks of a group that hangs, each taken on the node of its process.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/process_stacks_internal.h"
#include "manta/core/remote.h"
#include "manta/train/group_internal.h"
#include "manta/train/group_stacks_internal.h"

namespace manta::train {
namespace {

using std::chrono::milliseconds;

// The part of the time that is reserved for the answer's way back.
constexpr milliseconds kForTheWay{2000};

// A task on that node. It may look at processes of the run: see allow_stacks in member.cc.
std::vector<std::string> stacks_on_node(const std::vector<int32_t>& pids, int64_t patience_ms) {
  Deadline deadline = Deadline::after(milliseconds(patience_ms));
  std::vector<std::string> stacks;
  for (int32_t pid : pids) stacks.push_back(process_stacks(pid, deadline));
  return stacks;
}

/// Asks with tasks.
class StackTasks {
 public:
  explicit StackTasks(Deadline deadline) : deadline_(deadline) {}

  void ask(uint32_t node, const std::vector<int32_t>& pids) try {
    milliseconds patience(deadline_.poll_milliseconds());
    // The task holds no resources, so that it need not wait for those of hanging processes.
    tasks_[node] =
        remote({.resources = {.cpus = 0},
                .max_retries = 0,
                .name = "stacks",
                .labels = {{"id", std::to_string(node)}}},
               stacks_on_node, pids, std::max(patience - kForTheWay, patience / 2).count());
  } catch (const Error& error) {
    answers_[node].error = error.what();
  }

  std::map<uint32_t, StackSource::Answer> collect() {
    std::vector<ObjectRef<std::vector<std::string>>> all;
    for (const auto& [node, task] : tasks_) all.push_back(task);
    try {
      if (!all.empty()) get(all, milliseconds(deadline_.poll_milliseconds()));
    } catch (const Error&) {  // one task failed: the other answers are there now
    }
    for (const auto& [node, task] : tasks_) {
      try {
        answers_[node].stacks = task.get(milliseconds(0));
      } catch (const Error& error) {
        answers_[node].error = error.what();
      }
    }
    return std::move(answers_);
  }

 private:
  const Deadline deadline_;
  std::map<uint32_t, ObjectRef<std::vector<std::string>>> tasks_;
  std::map<uint32_t, StackSource::Answer> answers_;
};

}  // namespace

std::string stacks_of(const std::vector<StackOwner>& owners, const StackSource& source) {
  std::map<uint32_t, std::vector<int32_t>> elsewhere;
  for (const StackOwner& owner : owners)
    if (owner.place && owner.place->node != 0)
      elsewhere[owner.place->node].push_back(owner.place->pid);
  for (const auto& [node, pids] : elsewhere) source.ask(node, pids);
  std::map<int32_t, std::string> here;
  for (const StackOwner& owner : owners)
    if (owner.place && owner.place->node == 0)
      here[owner.place->pid] = source.here(owner.place->pid);
  auto answers = source.collect();
  auto from_node = [&](const StackOwner::Place& place) {
    const auto& pids = elsewhere.at(place.node);
    auto at = static_cast<size_t>(std::find(pids.begin(), pids.end(), place.pid) - pids.begin());
    const StackSource::Answer& answer = answers[place.node];
    if (at < answer.stacks.size()) return answer.stacks[at];
    return str("  on another node, from which it did not come: ", answer.error, "\n");
  };
  std::string text;
  for (const StackOwner& owner : owners) {
    text += str(text.empty() ? "" : "\n", owner.name);
    if (!owner.place) {
      text += "\n  has not joined\n";
    } else {
      text += str(" (pid ", owner.place->pid, ")\n",
                  owner.place->node != 0 ? from_node(*owner.place) : here.at(owner.place->pid));
    }
  }
  return text;
}

std::string Group::stacks(Deadline deadline) {
  std::vector<StackOwner> owners;
  {
    std::lock_guard lock(loop_.mutex);
    for (const Seat& seat : seats_) {
      owners.push_back({seat.name});
      if (seat.joined) owners.back().place = {seat.joined->node, seat.joined->pid};
    }
  }
  StackTasks tasks(deadline);
  return stacks_of(owners, {.ask = [&](uint32_t node, const auto& pids) { tasks.ask(node, pids); },
                            .here = [&](int32_t pid) { return process_stacks(pid, deadline); },
                            .collect = [&] { return tasks.collect(); }});
}

}  // namespace manta::train
