#include <arrow/api.h>

#include <algorithm>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

// Small enough for several windows of a shuffle, large enough to be worth a thread's turn.
constexpr int64_t kRangeFragmentRows = 1 << 20;
// As many fragments as a list of them may sensibly have.
constexpr int64_t kMostRangeRows = int64_t{1} << 40;

/// 0, 1, 2, ... in a column "id".
class RangeSource final : public Source {
 public:
  explicit RangeSource(int64_t rows) : rows_(rows) {
    for (int64_t first = 0; first < rows; first += kRangeFragmentRows) {
      int64_t count = std::min(kRangeFragmentRows, rows - first);
      fragments_.push_back({count, count});
    }
  }

  std::string_view name() const override { return "range"; }
  std::string to_string() override { return str("range: ", rows_, " rows"); }
  Json to_json() override { return {{"rows", rows_}}; }
  std::string why_not_stored() const override { return {}; }
  std::shared_ptr<arrow::Schema> schema() override {
    return arrow::schema({arrow::field("id", arrow::int64())});
  }
  const std::vector<Fragment>& fragments() override { return fragments_; }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override {
    return str("the numbers from ", first_of(fragment), " on");
  }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    int64_t first = first_of(fragment), end = first + *fragments_[fragment].rows;
    for (; first < end; first += piece_rows) {
      int64_t count = std::min(piece_rows, end - first);
      arrow::ArrayVector arrays;
      if (!columns.empty()) arrays.push_back(numbers(first, count));
      take(arrow::RecordBatch::Make(columns.empty() ? arrow::schema({}) : schema(), count,
                                    std::move(arrays)));
    }
  }

 private:
  static int64_t first_of(size_t fragment) {
    return static_cast<int64_t>(fragment) * kRangeFragmentRows;
  }
  static std::shared_ptr<arrow::Array> numbers(int64_t first, int64_t count) {
    std::shared_ptr<arrow::Buffer> buffer =
        check(arrow::AllocateBuffer(count * static_cast<int64_t>(sizeof(int64_t))), "range");
    auto* values = reinterpret_cast<int64_t*>(buffer->mutable_data());
    std::iota(values, values + count, first);
    return std::make_shared<arrow::Int64Array>(count, std::move(buffer));
  }

  const int64_t rows_;
  std::vector<Fragment> fragments_;
};

}  // namespace

std::shared_ptr<Source> read_range_source(const JsonFields& fields) {
  return std::make_shared<RangeSource>(fields.integer("rows", 0, kMostRangeRows));
}

Dataset range(int64_t rows) {
  if (rows < 0 || rows > kMostRangeRows) {
    throw Error(ErrorKind::kInvalidArgument, str("range: the number of rows must be between 0 and ",
                                                 kMostRangeRows, ", not ", rows));
  }
  return dataset_of(std::make_shared<RangeSource>(rows));
}

}  // namespace manta::data
