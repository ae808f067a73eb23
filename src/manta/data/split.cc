#include <algorithm>
#include <numeric>

#include "manta/data/plan_internal.h"

namespace manta::data {

std::vector<int64_t> last_rows(const std::vector<int64_t>& rows, int64_t test_rows) {
  std::vector<int64_t> result(rows.size(), 0);
  for (size_t i = rows.size(); i-- > 0;) {
    result[i] = std::min(rows[i], test_rows);
    test_rows -= result[i];
  }
  return result;
}

std::vector<int64_t> allot(const std::vector<int64_t>& rows, int64_t test_rows) {
  auto all = static_cast<__int128>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  std::vector<int64_t> result(rows.size(), 0);
  std::vector<int64_t> remainders(rows.size(), 0);
  int64_t missing = test_rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    auto share = static_cast<__int128>(rows[i]) * test_rows;
    result[i] = static_cast<int64_t>(share / all);
    remainders[i] = static_cast<int64_t>(share % all);
    missing -= result[i];
  }
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t i = 0; missing > 0; ++i, --missing) ++result[order[i]];
  return result;
}

}  // namespace manta::data
