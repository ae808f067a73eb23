#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "manta/core/node.h"
#include "manta/core/resources.h"

namespace manta {

/// A part of a node that is reserved for a holder until it is given back.
struct Grant {
  Resources amounts;
  std::vector<int> gpu_ids;  ///< The devices; for a share of a device, that device.
  uint64_t holder = 0;       ///< The holder that asked; the ledger only repeats it.
  uint64_t number = 0;       ///< The number of the node's entry; 0 for no grant.
  NodeId node = 0;
};

/// The free resources of one node: a plain value, so that a placement can be tried on a copy.
/// Amounts are in units of 1/10000, memory in bytes.
class Room {
 public:
  explicit Room(const Resources& total);

  double cpus() const;  ///< Below 0 for a moment: see NodeLedger::resume_cpus.
  Resources amounts() const;
  bool has(const Resources& asked) const;
  /// The devices that a request would get; nothing if there are not enough.
  std::optional<std::vector<int>> pick_gpus(double gpus) const;
  /// Takes `asked` if there is room, and returns whether it did.
  bool take(const Resources& asked);
  /// `sign` is +1 for taking, -1 for giving back.
  void change(const Resources& amounts, const std::vector<int>& gpu_ids, int sign);
  void change_cpus(double cpus, int sign);

 private:
  bool has_all_but_gpus(const Resources& asked) const;

  int64_t cpus_ = 0;
  int64_t memory_ = 0;
  std::vector<std::pair<std::string, int64_t>> custom_;
  std::vector<int64_t> gpus_;  // what is free of each device
};

/// Records which holder has which resources of one node. Not thread-safe.
class NodeLedger {
 public:
  explicit NodeLedger(const Resources& total, NodeId node = 0);

  const Resources& total() const { return total_; }
  /// What is free. CPUs may be below 0 for a moment: see `resume_cpus`.
  Resources available() const { return free_.amounts(); }
  const Room& room() const { return free_; }

  std::optional<Grant> acquire(const Resources& asked, uint64_t holder);
  /// Grants all requests or none.
  std::optional<std::vector<Grant>> acquire_all(const std::vector<Resources>& asked,
                                                uint64_t holder);
  void release(const Grant& grant);

  /// A holder that only waits gives its CPUs back and keeps the rest.
  void pause_cpus(const Grant& grant) { free_.change_cpus(grant.amounts.cpus, -1); }
  /// The holder goes on at once, even if others took its CPUs meanwhile (if it had to wait,
  /// everything might wait for everything else). Nothing new starts until enough CPUs are free
  /// again.
  void resume_cpus(const Grant& grant) { free_.change_cpus(grant.amounts.cpus, +1); }

  using DescribeHolder = std::function<std::string(uint64_t holder)>;
  /// One sentence: what is missing and who holds it. Empty if `asked` could be granted now. `where`
  /// follows what is missing, e.g. " on n1".
  std::string why_waits(const Resources& asked, const DescribeHolder& describe,
                        const std::string& where = {}) const;

 private:
  Resources total_;
  NodeId node_;
  Room free_;
  uint64_t next_number_ = 1;
  std::unordered_map<uint64_t, Grant> held_;
};

}  // namespace manta
