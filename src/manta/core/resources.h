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

/// "2 CPU, 0.5 GPU, 1.5 GiB memory, 1 disk"; "nothing" if all are 0.
std::string to_string(const Resources& resources);

}  // namespace manta
