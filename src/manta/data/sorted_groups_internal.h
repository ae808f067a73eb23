#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/operation_internal.h"

namespace manta::data {

/// Gets some consecutive rows of a group, and whether they are its first ones.
using TakeOfGroup = std::function<void(const BatchPtr& some, bool first_of_group)>;

/// Gives all rows group after group, in the order of these columns, nulls last; the rows of a group
/// keep their order. Never gives an empty batch. False if stopped.
bool for_each_group(const AllRows& rows, const std::vector<std::string>& keys, int64_t memory_bytes,
                    const std::string& doing, const TakeOfGroup& take);

}  // namespace manta::data
