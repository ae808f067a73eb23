#include <arrow/api.h>

#include <span>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/generator_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/data/reordered_rows_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

class WindowShuffle final : public WindowOperation {
 public:
  WindowShuffle(int64_t rows, uint64_t seed) : rows_(rows), seed_(seed) {}

  std::string to_string() const override {
    return str("window_shuffle(rows = ", rows_, ", seed = ", seed_, ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "window_shuffle"}, {"rows", rows_}, {"seed", seed_}};
  }
  void check_after(const Plan& plan) const override {
    if (!plan.window_operation()) return;
    throw Error(ErrorKind::kInvalidArgument,
                "a second window_shuffle after window_shuffle is not possible: shuffle once, with "
                "larger windows");
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  // Leaving rows out before a shuffle would change the order of the other rows.
  bool add_bounds(FileBounds&) const override { return false; }

  std::vector<std::vector<size_t>> windows(const std::vector<Fragment>& fragments,
                                           int64_t epoch) const override {
    std::vector<std::vector<size_t>> windows;
    Generator generator({seed_, static_cast<uint64_t>(epoch), kFragmentOrder});
    int64_t rows = rows_;  // in the last window
    for (size_t fragment : generator.permutation(static_cast<int64_t>(fragments.size()))) {
      if (rows >= rows_) {
        windows.emplace_back();
        rows = 0;
      }
      windows.back().push_back(fragment);
      rows += fragments[fragment].expected_rows;
    }
    return windows;
  }

  int64_t least_rows() const override { return rows_; }

  Batches run(const Batches& batches, int64_t epoch, int64_t window, int64_t part) const override {
    int64_t rows = count_rows(batches);
    if (rows > UINT32_MAX) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("in ", to_string(), ": a window of ", rows,
                      " rows; ask for fewer rows, or write smaller row groups"));
    }
    auto key = [](int64_t number) { return static_cast<uint64_t>(number); };
    Generator generator = part == 0
                              ? Generator({seed_, key(epoch), kRowOrder, key(window)})
                              : Generator({seed_, key(epoch), kRowOrder, key(window), key(part)});
    // Reuses memory: there is a window every few milliseconds.
    auto buffer = check(arrow::AllocateBuffer(rows * 4, &RecyclingPool::instance()), "shuffling");
    std::span order(reinterpret_cast<uint32_t*>(buffer->mutable_data()), static_cast<size_t>(rows));
    generator.permutation(order);
    auto all = reordered(batches, order);
    // The parts lie in the same memory, so putting adjacent ones together again copies nothing.
    return rechunk({all}, kPieceRows);
  }

 private:
  const int64_t rows_;
  const uint64_t seed_;
};

}  // namespace

OperationPtr read_window_shuffle(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<WindowShuffle>(fields.integer("rows", 1, kMaxRows),
                                         fields.unsigned_integer("seed"));
}

}  // namespace data

Dataset Dataset::window_shuffle(const WindowShuffleOptions& options) const {
  if (options.rows < 1 || options.rows > data::kMaxRows) {
    throw Error(ErrorKind::kInvalidArgument,
                str("window_shuffle needs rows of at least 1 and at most ", data::kMaxRows,
                    ", not ", options.rows));
  }
  uint64_t seed = options.seed ? *options.seed : data::draw_seed();
  return then(*this, std::make_shared<data::WindowShuffle>(options.rows, seed));
}

}  // namespace manta
