#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/core/node_ledger_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

constexpr int64_t kUnit = 10000;

int64_t units(double amount) { return std::llround(amount * kUnit); }
double from_units(int64_t amount) { return static_cast<double>(amount) / kUnit; }

}  // namespace

Room::Room(const Resources& total)
    : cpus_(units(total.cpus)),
      memory_(total.memory),
      gpus_(static_cast<size_t>(total.gpus), kUnit) {
  for (const auto& [name, amount] : total.custom) {
    if (amount > 0) custom_.emplace_back(name, units(amount));
  }
}

double Room::cpus() const { return from_units(cpus_); }

Resources Room::amounts() const {
  Resources result;
  result.cpus = from_units(cpus_);
  result.memory = memory_;
  for (const auto& [name, amount] : custom_) result.custom.emplace_back(name, from_units(amount));
  int64_t gpus = 0;
  for (int64_t free : gpus_) gpus += free;
  result.gpus = from_units(gpus);
  return result;
}

std::optional<std::vector<int>> Room::pick_gpus(double gpus) const {
  std::vector<int> picked;
  if (gpus <= 0) return picked;
  if (gpus < 1) {
    int best = -1;  // the fullest device that still has room, so that whole ones stay whole
    for (size_t i = 0; i < gpus_.size(); ++i) {
      if (gpus_[i] < units(gpus)) continue;
      if (best < 0 || gpus_[i] < gpus_[static_cast<size_t>(best)]) best = static_cast<int>(i);
    }
    if (best < 0) return std::nullopt;
    return std::vector<int>{best};
  }
  for (size_t i = 0; i < gpus_.size() && picked.size() < static_cast<size_t>(gpus); ++i) {
    if (gpus_[i] == kUnit) picked.push_back(static_cast<int>(i));
  }
  if (picked.size() < static_cast<size_t>(gpus)) return std::nullopt;
  return picked;
}

bool Room::has_all_but_gpus(const Resources& asked) const {
  if (asked.cpus > 0 && units(asked.cpus) > cpus_) return false;
  if (asked.memory > 0 && asked.memory > memory_) return false;
  return std::all_of(asked.custom.begin(), asked.custom.end(), [&](const auto& entry) {
    if (entry.second <= 0) return true;
    auto found = std::find_if(custom_.begin(), custom_.end(),
                              [&](const auto& has) { return has.first == entry.first; });
    return found != custom_.end() && found->second >= units(entry.second);
  });
}

bool Room::has(const Resources& asked) const {
  return has_all_but_gpus(asked) && (asked.gpus <= 0 || pick_gpus(asked.gpus));
}

bool Room::take(const Resources& asked) {
  if (!has_all_but_gpus(asked)) return false;
  auto gpus = pick_gpus(asked.gpus);
  if (gpus) change(asked, *gpus, +1);
  return gpus.has_value();
}

void Room::change(const Resources& amounts, const std::vector<int>& gpu_ids, int sign) {
  cpus_ -= sign * units(amounts.cpus);
  memory_ -= sign * amounts.memory;
  for (const auto& [name, amount] : amounts.custom) {
    for (auto& [other, free] : custom_) {
      if (other == name) free -= sign * units(amount);
    }
  }
  int64_t share = amounts.gpus >= 1 ? kUnit : units(amounts.gpus);
  for (int id : gpu_ids) gpus_[static_cast<size_t>(id)] -= sign * share;
}

void Room::change_cpus(double cpus, int sign) { cpus_ -= sign * units(cpus); }

NodeLedger::NodeLedger(const Resources& total, NodeId node)
    : total_(total), node_(node), free_(total) {}

std::optional<Grant> NodeLedger::acquire(const Resources& asked, uint64_t holder) {
  if (!free_.has(asked)) return std::nullopt;
  Grant grant{asked, *free_.pick_gpus(asked.gpus), holder, next_number_++, node_};
  free_.change(asked, grant.gpu_ids, +1);
  held_[grant.number] = grant;
  return grant;
}

std::optional<std::vector<Grant>> NodeLedger::acquire_all(const std::vector<Resources>& asked,
                                                          uint64_t holder) {
  std::vector<Grant> grants;
  for (const auto& one : asked) {
    auto grant = acquire(one, holder);
    if (!grant) {
      for (const auto& taken : grants) release(taken);
      return std::nullopt;
    }
    grants.push_back(std::move(*grant));
  }
  return grants;
}

void NodeLedger::release(const Grant& grant) {
  if (held_.erase(grant.number) > 0) free_.change(grant.amounts, grant.gpu_ids, -1);
}

std::string NodeLedger::why_waits(const Resources& asked, const DescribeHolder& describe,
                                  const std::string& where) const {
  std::string missing;
  std::vector<uint64_t> holders;
  auto check = [&](double wanted, double free, double all, const std::string& name,
                   auto&& amount_of) {
    if (wanted <= 0 || wanted <= free) return;
    missing += fmt::format("{}{:.6g} {} ({:.6g} of {:.6g} free)", missing.empty() ? "" : " and ",
                           wanted, name, std::max(0.0, free), all);
    for (const auto& [number, grant] : held_) {
      if (amount_of(grant.amounts) > 0) holders.push_back(number);
    }
  };
  Resources free = available();
  check(asked.cpus, free.cpus, total_.cpus, "CPU", [](const Resources& r) { return r.cpus; });
  if (asked.gpus > 0 && !free_.pick_gpus(asked.gpus)) {
    check(asked.gpus, std::min(free.gpus, asked.gpus - 0.0001), total_.gpus, "GPU",
          [](const Resources& r) { return r.gpus; });
  }
  if (asked.memory > free.memory) {
    missing += fmt::format(
        "{}{} memory ({} of {} free)", missing.empty() ? "" : " and ", format_bytes(asked.memory),
        format_bytes(std::max<int64_t>(0, free.memory)), format_bytes(total_.memory));
    for (const auto& [number, grant] : held_) {
      if (grant.amounts.memory > 0) holders.push_back(number);
    }
  }
  for (const auto& [name, amount] : asked.custom) {
    check(amount, amount_of(free.custom, name), amount_of(total_.custom, name), name,
          [&name = name](const Resources& r) { return amount_of(r.custom, name); });
  }
  if (missing.empty()) return "";
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  std::string by;
  for (size_t i = 0; i < std::min<size_t>(holders.size(), 3); ++i) {
    const Grant& grant = held_.at(holders[i]);
    by += fmt::format("{}{} ({})", i == 0 ? "; held by " : ", ", describe(grant.holder),
                      to_string(grant.amounts));
  }
  if (holders.size() > 3) by += fmt::format(" and {} more", holders.size() - 3);
  return "waits for " + missing + where + by;
}

}  // namespace manta
