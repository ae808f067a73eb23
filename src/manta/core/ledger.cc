#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/core/ledger_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

constexpr int64_t kUnit = 10000;

int64_t units(double amount) { return std::llround(amount * kUnit); }
double from_units(int64_t amount) { return static_cast<double>(amount) / kUnit; }

}  // namespace

Ledger::Amounts Ledger::amounts(const Resources& resources) {
  Amounts result{units(resources.cpus), resources.memory, {}};
  for (const auto& [name, amount] : resources.custom) {
    if (amount > 0) result.custom[name] = units(amount);
  }
  return result;
}

Ledger::Ledger(const Resources& total)
    : total_(total), free_(amounts(total)), gpu_free_(static_cast<size_t>(total.gpus), kUnit) {}

Resources Ledger::available() const {
  Resources result;
  result.cpus = from_units(free_.cpus);
  result.memory = free_.memory;
  for (const auto& [name, amount] : free_.custom) {
    result.custom.emplace_back(name, from_units(amount));
  }
  int64_t gpus = 0;
  for (int64_t free : gpu_free_) gpus += free;
  result.gpus = from_units(gpus);
  return result;
}

std::optional<std::vector<int>> Ledger::pick_gpus(double gpus) const {
  std::vector<int> picked;
  if (gpus <= 0) return picked;
  if (gpus < 1) {
    int best = -1;  // the fullest device that still has room, so that whole ones stay whole
    for (size_t i = 0; i < gpu_free_.size(); ++i) {
      if (gpu_free_[i] < units(gpus)) continue;
      if (best < 0 || gpu_free_[i] < gpu_free_[static_cast<size_t>(best)])
        best = static_cast<int>(i);
    }
    if (best < 0) return std::nullopt;
    return std::vector<int>{best};
  }
  for (size_t i = 0; i < gpu_free_.size() && picked.size() < static_cast<size_t>(gpus); ++i) {
    if (gpu_free_[i] == kUnit) picked.push_back(static_cast<int>(i));
  }
  if (picked.size() < static_cast<size_t>(gpus)) return std::nullopt;
  return picked;
}

std::optional<Grant> Ledger::acquire(const Resources& asked, uint64_t holder) {
  if (asked.cpus > 0 && units(asked.cpus) > free_.cpus) return std::nullopt;
  if (asked.memory > 0 && asked.memory > free_.memory) return std::nullopt;
  for (const auto& [name, amount] : asked.custom) {
    auto found = free_.custom.find(name);
    if (amount > 0 && (found == free_.custom.end() || found->second < units(amount)))
      return std::nullopt;
  }
  auto gpus = pick_gpus(asked.gpus);
  if (!gpus) return std::nullopt;
  Grant grant{asked, std::move(*gpus), holder, next_number_++};
  take(grant, +1);
  held_[grant.number] = grant;
  return grant;
}

std::optional<std::vector<Grant>> Ledger::acquire_all(const std::vector<Resources>& asked,
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

void Ledger::take(const Grant& grant, int sign) {
  Amounts wanted = amounts(grant.amounts);
  free_.cpus -= sign * wanted.cpus;
  free_.memory -= sign * wanted.memory;
  for (const auto& [name, amount] : wanted.custom) free_.custom[name] -= sign * amount;
  int64_t share = grant.amounts.gpus >= 1 ? kUnit : units(grant.amounts.gpus);
  for (int id : grant.gpu_ids) gpu_free_[static_cast<size_t>(id)] -= sign * share;
}

void Ledger::release(const Grant& grant) {
  if (held_.erase(grant.number) > 0) take(grant, -1);
}

void Ledger::pause_cpus(const Grant& grant) { free_.cpus += units(grant.amounts.cpus); }
void Ledger::resume_cpus(const Grant& grant) { free_.cpus -= units(grant.amounts.cpus); }

std::string Ledger::why_waits(const Resources& asked, const DescribeHolder& describe) const {
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
  if (asked.gpus > 0 && !pick_gpus(asked.gpus)) {
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
  return "waits for " + missing + by;
}

}  // namespace manta
