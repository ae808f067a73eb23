#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/sorted_groups_internal.h"
#include "manta/data/wide_internal.h"

namespace manta::data {
namespace {

bool have_same_key(const arrow::ArrayVector& lanes, int64_t row, const arrow::ArrayVector& others,
                   int64_t other_row) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i]->RangeEquals(row, row + 1, other_row, others[i])) return false;
  }
  return true;
}

}  // namespace

bool for_each_group(const AllRows& rows, const std::vector<std::string>& keys, int64_t memory_bytes,
                    const std::string& doing, const TakeOfGroup& take) {
  auto first = rows.next();
  if (!first) return !rows.stopping || !rows.stopping();
  const std::vector<bool> upwards(keys.size(), false);
  auto order = order_keys(*first->schema(), keys, upwards, Nulls::kLast, doing);
  auto keys_of = keys_of_columns(keys, upwards, Nulls::kLast);
  AllRows all = rows;
  all.next = [&] { return first ? std::move(first) : rows.next(); };
  arrow::ArrayVector last;  // the key of the batch before
  return sort_rows(all, order, keys_of, memory_bytes, doing, [&](const BatchPtr& batch) {
    auto lanes = keys_of(*batch, 0);
    bool begins = last.empty() || !have_same_key(lanes, 0, last, 0);
    int64_t begin = 0;
    for (int64_t row = 1; row < batch->num_rows(); ++row) {
      if (have_same_key(lanes, row - 1, lanes, row)) continue;
      take(batch->Slice(begin, row - begin), begins);
      begins = true;
      begin = row;
    }
    take(batch->Slice(begin), begins);
    last.clear();
    for (const auto& lane : lanes) last.push_back(lane->Slice(batch->num_rows() - 1));
  });
}

}  // namespace manta::data
