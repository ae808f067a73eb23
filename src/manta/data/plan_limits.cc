#include "manta/base/error_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta::data {

std::vector<int64_t> row_counts(const JsonFields& fields, const std::string& key) {
  std::vector<int64_t> result;
  int64_t left = kMaxRows;
  for (const Json& each : fields.array(key)) {
    // As an int64, the library would let a larger number wrap around.
    bool fits = each.is_number_integer() &&
                (!each.is_number_unsigned() || each.get<uint64_t>() <= uint64_t{INT64_MAX}) &&
                each.get<int64_t>() >= 0 && each.get<int64_t>() <= left;
    if (!fits) {
      fields.fail(
          key, str("numbers of rows, together at most ", kMaxRows, ": one is ", short_text(each)));
    }
    result.push_back(each.get<int64_t>());
    left -= result.back();
  }
  return result;
}

}  // namespace manta::data
