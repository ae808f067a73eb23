#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/resources_internal.h"
#include "manta/tune/trial_room_internal.h"

namespace manta::tune {
namespace {

constexpr int kMostTrialsAtATime = 256;
constexpr double kCpusToShare = 5;  // with this many or more, trials leave some to others
constexpr double kShare = 0.8;

// Why this many trials of a function cannot run at a time; empty if they can.
std::string why_impossible(const Resources& trial, int count) {
  AskPossible question;
  question.asked.assign(static_cast<size_t>(count), {trial, {}});
  return Client::current("Tuner::fit")->ask(std::move(question)).text;
}

// A trial is on one node: that may be fewer than the sum of all nodes could hold.
int most_at_a_time(const Resources& trial, int limit) {
  int possible = 1, impossible = limit + 1;
  while (impossible - possible > 1) {
    int count = possible + (impossible - possible) / 2;
    (why_impossible(trial, count).empty() ? possible : impossible) = count;
  }
  return possible;
}

bool is_cluster(const std::vector<Node>& nodes) { return !nodes.front().address.empty(); }

void raise_to(Resources& total, const Resources& trial, int count) {
  total.cpus = std::max(total.cpus, trial.cpus * count);
  total.gpus = std::max(total.gpus, std::ceil(trial.gpus * count));
  total.memory = std::max(total.memory, trial.memory * count);
  for (const auto& [name, amount] : trial.custom) {
    double lacks = amount * count - amount_of(total.custom, name);
    if (lacks > 0) add_resources(total, {.cpus = 0, .custom = {{name, lacks}}});
  }
}

}  // namespace

void check_possible(const Trainable& function) {
  std::string why = why_impossible(function.resources(), 1);
  if (!why.empty()) throw Error(ErrorKind::kResources, "a trial " + why);
}

TrialRoom room_for_trials(const TuneConfig& config, const Trainable* function) {
  TrialRoom room{.total = {.cpus = 0}};
  room.max_concurrent =
      config.max_concurrent_trials > 0 ? config.max_concurrent_trials : kMostTrialsAtATime;
  auto all = nodes();
  for (const Node& node : all) {
    if (node.state == NodeState::kAlive) add_resources(room.total, node.total);
  }
  if (function && is_cluster(all)) {
    room.max_concurrent = most_at_a_time(function->resources(), room.max_concurrent);
    raise_to(room.total, function->resources(), room.max_concurrent);
  }
  double& cpus = room.total.cpus;
  cpus *= config.max_cpu_fraction.value_or(cpus >= kCpusToShare ? kShare : 1.0);
  return room;
}

bool room_changes() { return is_cluster(nodes()); }

}  // namespace manta::tune
