// Why a request waits, or would wait for ever.

#include <fmt/format.h>

#include <algorithm>

#include "manta/core/ledger_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

constexpr size_t kMostNames = 4;

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) text += fmt::format(" and {} more", names.size() - kMostNames);
  return text;
}

std::string with_labels(const Labels& labels) {
  return labels.empty() ? "" : " with " + describe_labels(labels);
}

}  // namespace

std::string Ledger::why_impossible(const Request& asked) const {
  if (is_possible(asked)) return "";
  std::vector<const Node*> nodes;
  for (const Node& node : nodes_) {
    if (!node.draining && has_labels(node.info.labels, asked.labels)) nodes.push_back(&node);
  }
  const Resources& wants = asked.resources;
  std::string on_one =
      fmt::format("asks for {} on one node{}", to_string(wants), with_labels(asked.labels));
  if (nodes.empty()) {
    std::vector<std::string> has;
    for (const Node& node : nodes_) {
      std::string labels = node.draining ? "is draining" : describe_labels(node.info.labels);
      has.push_back(fmt::format("{} ({})", node.info.name, labels.empty() ? "none" : labels));
    }
    if (has.empty()) return on_one + "; there is no node";
    return fmt::format("{}; no node has these labels: {}", on_one, list(has));
  }
  // The first resource of which no node has enough.
  std::string reason;
  auto check = [&](double amount, const std::string& unit, auto&& total_of, auto&& text_of) {
    if (!reason.empty() || amount <= 0) return;
    double most = 0;
    for (const Node* node : nodes) most = std::max(most, total_of(node->info.total));
    if (amount <= most) return;
    std::vector<std::string> names;
    for (const Node* node : nodes) {
      if (total_of(node->info.total) == most) names.push_back(node->info.name);
    }
    reason =
        fmt::format("asks for {}{} on one node{}; the largest node has {} ({})", text_of(amount),
                    unit, with_labels(asked.labels), text_of(most), list(names));
  };
  auto number = [](double amount) { return fmt::format("{:.6g}", amount); };
  check(
      wants.cpus, " CPU", [](const Resources& r) { return r.cpus; }, number);
  check(
      wants.gpus, " GPU", [](const Resources& r) { return r.gpus; }, number);
  check(
      static_cast<double>(wants.memory), " memory",
      [](const Resources& r) { return static_cast<double>(r.memory); },
      [](double bytes) { return format_bytes(static_cast<int64_t>(bytes)); });
  for (const auto& [name, amount] : wants.custom) {
    check(
        amount, " " + name,
        [&name = name](const Resources& r) { return amount_of(r.custom, name); }, number);
  }
  if (!reason.empty()) return reason;
  std::vector<std::string> has;
  for (const Node* node : nodes) {
    has.push_back(fmt::format("{} has {}", node->info.name, to_string(node->info.total)));
  }
  return fmt::format("{}; no node has all of it: {}", on_one, list(has));
}

std::string Ledger::why_impossible(const std::vector<Request>& asked, Placement placement) const {
  for (const Request& each : asked) {
    std::string why = why_impossible(each);
    if (!why.empty()) return why;
  }
  if (place_gang(placeable(true), asked, placement)) return "";
  bool equal = std::all_of(asked.begin(), asked.end(),
                           [&](const Request& each) { return each == asked.front(); });
  std::string what =
      equal ? fmt::format("{} times {}{}", asked.size(), to_string(asked.front().resources),
                          with_labels(asked.front().labels))
            : fmt::format("{} different requests", asked.size());
  std::vector<std::string> has;
  for (const Node& node : nodes_) {
    if (!node.draining) {
      has.push_back(fmt::format("{} has {}", node.info.name, to_string(node.info.total)));
    }
  }
  const char* where = placement == Placement::kStrictPack     ? " on one node"
                      : placement == Placement::kStrictSpread ? ", each on another node"
                                                              : "";
  return fmt::format(
      "asks for {}{} ({}); {}: {}", what, where, to_string(placement),
      has.size() == 1 ? "there is one node" : fmt::format("there are {} nodes", has.size()),
      list(has));
}

std::string Ledger::why_waits(const Request& asked, const DescribeHolder& describe) const {
  const Node* freest = nullptr;
  size_t count = 0;
  for (const Node& node : nodes_) {
    if (!could_ever(node, asked)) continue;
    if (node.ledger.room().has(asked.resources)) return "";
    ++count;
    if (!freest || node.ledger.room().cpus() > freest->ledger.room().cpus()) freest = &node;
  }
  if (!freest) return why_impossible(asked);
  std::string where;
  if (nodes_.size() > 1) where = " on " + freest->info.name;
  if (count > 1) where += fmt::format(", the freest of {} nodes that could run it", count);
  return freest->ledger.why_waits(asked.resources, describe, where);
}

std::string Ledger::why_waits(const std::vector<Request>& asked, Placement placement,
                              const DescribeHolder& describe) const {
  if (place_gang(placeable(false), asked, placement)) return "";
  for (const Request& each : asked) {
    std::string why = why_waits(each, describe);
    if (!why.empty()) return why;
  }
  // There is room for each request by itself, but not for all together.
  const Resources& first = asked.front().resources;
  std::string why = nodes_.size() == 1 ? ""
                                       : fmt::format(", placed by {} on {} nodes",
                                                     to_string(placement), nodes_.size());
  return fmt::format("waits for {} times {}{} at once ({} free in all)", asked.size(),
                     to_string(first), why, to_string(available()));
}

}  // namespace manta
