#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/sorted_groups_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

bool have_same_key(const arrow::ArrayVector& lanes, int64_t a, int64_t b) {
  for (const auto& lane : lanes) {
    if (!lane->RangeEquals(a, a + 1, b, lane)) return false;
  }
  return true;
}

// Unlike any other key's.
std::string text_of_key(const arrow::ArrayVector& lanes, int64_t row) {
  std::string text;
  for (const auto& lane : lanes) {
    auto value = check(lane->GetScalar(row), "keys")->ToString();
    text += str(lane->IsNull(row) ? "null" : "value", value.size(), ":", value);
  }
  return text;
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
  bool begun = false;
  std::string last_key;
  return sort_rows(all, order, keys_of, memory_bytes, doing, [&](const BatchPtr& batch) {
    auto lanes = keys_of(*batch, 0);
    bool begins = !begun || text_of_key(lanes, 0) != last_key;
    int64_t begin = 0;
    for (int64_t row = 1; row < batch->num_rows(); ++row) {
      if (have_same_key(lanes, row - 1, row)) continue;
      take(batch->Slice(begin, row - begin), begins);
      begins = true;
      begin = row;
    }
    take(batch->Slice(begin), begins);
    begun = true;
    last_key = text_of_key(lanes, batch->num_rows() - 1);
  });
}

}  // namespace manta::data
