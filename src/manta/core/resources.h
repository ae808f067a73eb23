#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace manta {

/// Amounts by name, each name once: `{{"disk", 2}, {"license", 1}}`. (Not a map: g++ 12 warns of an
/// uninitialised one at every designated initialiser.)
using NamedAmounts = std::vector<std::pair<std::string, double>>;

/// What a task or an actor requests, and holds for as long as it runs. Amounts may be fractions,
/// down to 0.0001.
struct Resources {
  double cpus = 1;           ///< 0: does not count against the processors.
  double gpus = 0;           ///< Whole devices, or a share of one if below 1.
  int64_t memory = 0;        ///< Bytes; accounted, not enforced.
  NamedAmounts custom = {};  ///< Anything else that InitOptions declared, by name.

  bool operator==(const Resources&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(cpus, gpus, memory, custom);
  }
};

/// What the machine has. A field that is not set is detected.
struct MachineResources {
  std::optional<double> cpus =
      {};  ///< Default: the smaller of the cgroup's quota and the allowed processors.
  std::optional<double> gpus = {};  ///< Default: the NVIDIA devices that the driver shows.
  std::optional<int64_t> memory =
      {};  ///< Default: the smaller of the cgroup's limit and the machine's memory.
  NamedAmounts custom = {};
};

/// Fills in the fields that `given` does not set. Reads /proc, /sys/fs/cgroup and /dev below
/// `root`, which is "/" except in tests.
Resources detect_resources(const MachineResources& given = {}, const std::string& root = "/");

/// The amount with that name; 0 if there is none.
double amount_of(const NamedAmounts& amounts, const std::string& name);

/// Throws Error(kInvalidArgument) if an amount is negative or not finite, or if the number of GPUs
/// is neither whole nor below 1. `what` names the requester in the message.
void check_resources(const Resources& asked, const std::string& what);

/// Whether `check_resources` and `check_possible`, respectively, would pass.
bool is_valid(const Resources& asked);
bool is_possible(const Resources& asked, const Resources& total);

/// Throws Error(kResources), which says what was requested and what there is, if even the idle
/// machine could not provide it.
void check_possible(const Resources& asked, const Resources& total, const std::string& what);

/// "512 bytes", "1.5 GiB".
std::string format_bytes(int64_t bytes);

/// "2 CPU, 0.5 GPU, 1.5 GiB memory, 1 disk"; "nothing" if all are 0.
std::string to_string(const Resources& resources);

}  // namespace manta
