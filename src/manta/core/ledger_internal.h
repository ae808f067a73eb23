#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/core/resources.h"

namespace manta {

/// Part of the machine that is reserved for somebody until it is given back.
struct Grant {
  Resources amounts;
  std::vector<int> gpu_ids;  ///< The devices; for a share of one, that one.
  uint64_t holder = 0;       ///< Whoever asked; the ledger only repeats it.
  uint64_t number = 0;       ///< Of the ledger's entry; 0 for no grant.
};

/// Who holds what of the machine's resources. The only place where they are counted. Not
/// thread-safe.
class Ledger {
 public:
  explicit Ledger(const Resources& total);

  const Resources& total() const { return total_; }
  /// What is free. CPUs may be below 0 for a moment: see `resume_cpus`.
  Resources available() const;

  std::optional<Grant> acquire(const Resources& asked, uint64_t holder);
  /// All or none.
  std::optional<std::vector<Grant>> acquire_all(const std::vector<Resources>& asked,
                                                uint64_t holder);
  void release(const Grant& grant);

  /// A holder that only waits gives its CPUs back and keeps the rest.
  void pause_cpus(const Grant& grant);
  /// It goes on at once, even if others took them meanwhile (making it wait could make everybody
  /// wait); nothing new starts until the balance is right again.
  void resume_cpus(const Grant& grant);

  using DescribeHolder = std::function<std::string(uint64_t holder)>;
  /// One sentence: what is missing and who holds it. Empty if `asked` could be had now.
  std::string why_waits(const Resources& asked, const DescribeHolder& describe) const;

 private:
  struct Amounts {  // in units of 1/10000
    int64_t cpus = 0;
    int64_t memory = 0;  // bytes
    std::map<std::string, int64_t> custom;
  };
  static Amounts amounts(const Resources& resources);
  std::optional<std::vector<int>> pick_gpus(double gpus) const;
  void take(const Grant& grant, int sign);

  Resources total_;
  Amounts free_;
  std::vector<int64_t> gpu_free_;
  uint64_t next_number_ = 1;
  std::map<uint64_t, Grant> held_;
};

}  // namespace manta
