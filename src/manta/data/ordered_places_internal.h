#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "manta/data/wide_internal.h"

namespace manta::data {

/// Whether `give_ordered_places` can sort by these keys: there is one, an integer of at most 64
/// bits, as the lanes of numbers (decimals of more than 18 digits aside), times and the keys of a
/// shuffle are. Others take a query.
bool can_order_places(const std::vector<OrderKey>& keys);

/// Sorts places by their key, in memory: a radix sort, several times as fast as a query, which also
/// has to copy its input and its result. The batches of `next_keys` are two lanes, the key and the
/// place, 16 bytes a row; another 16 are needed for a row, as a query would need them. Passes on
/// the places, one lane in batches of kPieceRows, the last one shorter; equal keys as they came.
/// False if it was stopped.
bool give_ordered_places(
    const NextBatch& next_keys, const OrderKey& key, const WideLimits& limits,
    const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& take);

}  // namespace manta::data
