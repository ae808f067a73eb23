#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

/// Fills in the fields that `given` does not set. Reads /proc, /sys/fs/cgroup and /dev below
/// `root`, which is "/" except in tests.
Resources detect_resources(const MachineResources& given = {}, const std::string& root = "/");

/// The devices that CUDA_VISIBLE_DEVICES of this process lets it use; nothing if it is not set.
std::optional<std::vector<std::string>> visible_gpus();

/// This machine's own name for itself.
std::string host_name();

/// Adds each amount of `part` to that of `sum`.
void add_resources(Resources& sum, const Resources& part);

/// The amount with that name; 0 if there is none.
double amount_of(const NamedAmounts& amounts, const std::string& name);

/// Throws Error(kInvalidArgument) if an amount is negative or not finite, or if the number of GPUs
/// is neither whole nor below 1. `what` names the requester in the message.
void check_resources(const Resources& asked, const std::string& what);

/// Throws Error(kInvalidArgument) if a label has no name, or a name comes twice.
void check_labels(const Labels& labels, const std::string& what);

/// Whether `check_resources` and `check_labels`, respectively, would pass.
bool is_valid(const Resources& asked);
bool is_valid(const Labels& labels);
/// Whether a machine that has `total` could provide it if it were idle.
bool is_possible(const Resources& asked, const Resources& total);

/// "512 bytes", "1.5 GiB".
std::string format_bytes(int64_t bytes);

}  // namespace manta
