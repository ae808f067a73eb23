#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/generator_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/operation_split_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/stream_internal.h"

namespace manta {
namespace data {
namespace {

void require_no_windows(const Plan& plan) {
  if (!plan.window_operation()) return;
  throw Error(
      ErrorKind::kInvalidArgument,
      "train_test_split after window_shuffle is not possible: split first, then shuffle the "
      "train part");
}

// A split knows the rows of each fragment of the source.
void require_fragments_of_source(const Plan& plan) {
  if (auto place = plan.last_materialising()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("a plan that splits the row groups of its source after ",
                    plan.operations[*place]->to_string()));
  }
  require_no_windows(plan);
}

/// How a fragment's rows are split.
struct FragmentCut {
  bool test = false;     ///< Which part is wanted: the last `test_rows`, or those before them.
  bool shuffle = false;  ///< Draw the test rows instead.
  uint64_t seed = 0;
  size_t fragment = 0;
  int64_t rows = 0, test_rows = 0;
};

/// One part of a split fragment.
class PartOfFragment final : public FlowOperation::Flow {
 public:
  /// `fail` throws: the number of rows is not `cut.rows`, but at least the argument.
  PartOfFragment(const FragmentCut& cut, std::function<void(int64_t rows)> fail)
      : cut_(cut), fail_(std::move(fail)) {
    if (!cut.shuffle) return;
    Generator generator({cut.seed, cut.fragment, kSplitRows});
    auto order = generator.permutation(cut.rows);
    drawn_.assign(static_cast<size_t>(cut.rows) / 8 + 1, cut.test ? 0x00 : 0xff);
    for (int64_t i = 0; i < cut.test_rows; ++i) {
      size_t row = order[static_cast<size_t>(i)];
      drawn_[row / 8] = static_cast<uint8_t>(drawn_[row / 8] ^ (1u << (row % 8)));
    }
  }

  void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
    int64_t first = seen_;
    seen_ += batch->num_rows();
    if (seen_ > cut_.rows) fail_(seen_);
    if (cut_.shuffle) {
      Piece piece = to_piece(*batch);
      RowMask mask(piece.rows);
      mask.keep_bits(drawn_.data(), first);
      mask.apply(piece);
      if (piece.rows > 0) take(to_batch(std::move(piece)));
      return;
    }
    int64_t before_test = cut_.rows - cut_.test_rows;
    int64_t begin = cut_.test ? before_test : 0, end = cut_.test ? cut_.rows : before_test;
    int64_t from = std::max<int64_t>(begin - first, 0);
    int64_t to = std::min(end - first, batch->num_rows());
    if (from < to) take(batch->Slice(from, to - from));
  }
  void finish(const TakeBatch&) override {
    if (seen_ != cut_.rows) fail_(seen_);
  }

 private:
  const FragmentCut cut_;
  const std::function<void(int64_t)> fail_;
  std::vector<uint8_t> drawn_;  // a bit for each row
  int64_t seen_ = 0;
};

/// One part of a train_test_split. Both parts know how many rows each fragment gives before the
/// split and how many of those are test rows, so that each fragment is split by itself.
class Split final : public FlowOperation {
 public:
  struct Table {
    bool shuffle = false;  ///< Draw the test rows; otherwise they are each fragment's last rows.
    uint64_t seed = 0;
    std::vector<int64_t> rows;       ///< Per fragment.
    std::vector<int64_t> test_rows;  ///< Per fragment.
  };
  Split(bool test, Table table) : test_(test), table_(std::move(table)) {}

  std::string to_string() const override {
    int64_t kept_rows = 0, all = 0;
    for (size_t i = 0; i < table_.rows.size(); ++i) {
      kept_rows += kept(i);
      all += table_.rows[i];
    }
    return str("train_test_split(", test_ ? "test" : "train", ": ", kept_rows, " of ", all, " rows",
               table_.shuffle ? str(", shuffled, seed = ", table_.seed) : "", ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "split"},
            {"part", test_ ? "test" : "train"},
            {"shuffle", table_.shuffle},
            {"seed", table_.seed},
            {"rows", table_.rows},
            {"test_rows", table_.test_rows}};
  }
  void check_after(const Plan& plan) const override {
    require_fragments_of_source(plan);
    size_t fragments = plan.source->fragments().size();
    bool fits = table_.rows.size() == fragments && table_.test_rows.size() == fragments;
    for (size_t i = 0; fits && i < fragments; ++i) {
      fits = table_.test_rows[i] >= 0 && table_.test_rows[i] <= table_.rows[i];
    }
    if (!fits) {
      throw Error(ErrorKind::kInvalidArgument, "a plan whose split does not fit its row groups");
    }
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t fragment, std::optional<int64_t>) const override {
    return kept(fragment);
  }
  bool may_add_rows() const override { return false; }
  bool add_bounds(FileBounds&) const override { return true; }

  std::unique_ptr<Flow> begin(const Place& place) const override {
    int64_t rows = table_.rows[place.fragment], test_rows = table_.test_rows[place.fragment];
    return std::make_unique<PartOfFragment>(
        FragmentCut{test_, table_.shuffle, table_.seed, place.fragment, rows, test_rows},
        [rows, &place](int64_t now) {
          throw Error(ErrorKind::kCorrupt,
                      str(place.describe(), " gave ", rows, " rows when it was split, and ", now,
                          now > rows ? " or more" : "",
                          " now; the data, or what a map_batches function does, has changed"));
        });
  }

 private:
  int64_t kept(size_t fragment) const {
    return test_ ? table_.test_rows[fragment] : table_.rows[fragment] - table_.test_rows[fragment];
  }

  const bool test_;  ///< Which part this is.
  const Table table_;
};

/// One part of a train_test_split of rows that an operation on all rows has given: the number of
/// each fragment's rows is known once the rows are there.
class SplitAll final : public FlowOperation {
 public:
  struct Rows {
    bool shuffle = false;
    uint64_t seed = 0;
    int64_t all = 0;
    int64_t test = 0;
  };
  SplitAll(bool test, const Rows& rows) : test_(test), rows_(rows) {}

  std::string to_string() const override {
    return str("train_test_split(", test_ ? "test" : "train", ": ", kept(), " of ", rows_.all,
               " rows", rows_.shuffle ? str(", shuffled, seed = ", rows_.seed) : "", ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "split_all"},        {"part", test_ ? "test" : "train"},
            {"shuffle", rows_.shuffle}, {"seed", rows_.seed},
            {"all_rows", rows_.all},    {"test_rows", rows_.test}};
  }
  void check_after(const Plan& plan) const override {
    bool all_rows = !plan.operations.empty() &&
                    dynamic_cast<const MaterialisingOperation*>(plan.operations.back().get());
    if (all_rows && rows_.test <= rows_.all) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", to_string(),
                    ": it must follow an operation on all rows, and have no "
                    "more test rows than rows"));
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const override {
    return std::nullopt;  // the argument may mean a fragment or all rows: it cannot tell which
  }
  bool may_add_rows() const override { return false; }
  bool add_bounds(FileBounds&) const override { return false; }

  std::unique_ptr<Flow> begin(const Place& place) const override {
    int64_t test_rows = test_rows_of(place);
    int64_t rows = *place.plan.source->fragments()[place.fragment].rows;
    return std::make_unique<PartOfFragment>(
        FragmentCut{test_, rows_.shuffle, rows_.seed, place.fragment, rows, test_rows},
        [rows, &place](int64_t now) {
          throw Error(ErrorKind::kCorrupt,
                      str(place.describe(), " has ", now, " rows, not ", rows, " as before"));
        });
  }

 private:
  int64_t kept() const { return test_ ? rows_.test : rows_.all - rows_.test; }

  int64_t test_rows_of(const Place& place) const {
    std::lock_guard lock(mutex_);
    const auto* source = place.plan.source.get();
    if (known_for_.lock().get() != source) {
      std::vector<int64_t> rows;
      int64_t all = 0;
      for (const auto& fragment : place.plan.source->fragments()) {
        rows.push_back(fragment.expected_rows);
        all += fragment.expected_rows;
      }
      if (all != rows_.all) {
        throw Error(ErrorKind::kCorrupt,
                    str("the rows before ", to_string(), " were ", rows_.all,
                        " when they were split, and are ", all,
                        " now; the data, or what a function does, has changed"));
      }
      test_rows_ = rows_.shuffle ? allot(rows, rows_.test) : last_rows(rows, rows_.test);
      known_for_ = place.plan.source;
    }
    return test_rows_[place.fragment];
  }

  const bool test_;
  const Rows rows_;
  mutable std::mutex mutex_;                       // of what follows
  mutable std::weak_ptr<const Source> known_for_;  // whose fragments these are
  mutable std::vector<int64_t> test_rows_;
};

void require_both_parts(int64_t test_rows, int64_t all) {
  if (test_rows >= 1 && test_rows < all) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("train_test_split: ", test_rows, " test rows of ", all,
                  " leave one of the parts empty; choose another test_size"));
}

// Keeps the rows, so that both parts use the same rows.
std::pair<Dataset, Dataset> split_all(const Dataset& dataset,
                                      const std::function<int64_t(int64_t all)>& test_rows,
                                      const TrainTestSplitOptions& options) {
  Dataset kept = dataset.materialize();
  SplitAll::Rows rows;
  rows.shuffle = options.shuffle;
  rows.seed = options.seed ? *options.seed : draw_seed();
  rows.all = kept.count();
  rows.test = test_rows(rows.all);
  require_both_parts(rows.test, rows.all);
  return {then(kept, std::make_shared<SplitAll>(false, rows)),
          then(kept, std::make_shared<SplitAll>(true, rows))};
}

std::pair<Dataset, Dataset> split(const Dataset& dataset, const std::vector<int64_t>& rows,
                                  int64_t test_rows, const TrainTestSplitOptions& options) {
  int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  require_both_parts(test_rows, all);
  Split::Table table;
  table.shuffle = options.shuffle;
  table.seed = options.seed ? *options.seed : draw_seed();
  table.rows = rows;
  table.test_rows = options.shuffle ? allot(rows, test_rows) : last_rows(rows, test_rows);
  return {then(dataset, std::make_shared<Split>(false, table)),
          then(dataset, std::make_shared<Split>(true, table))};
}

}  // namespace

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

OperationPtr read_split(const JsonFields& fields, const PlanFunctions&) {
  Split::Table table;
  std::string part = fields.text("part");
  if (part != "test" && part != "train") fields.fail("part", "\"train\" or \"test\"");
  table.shuffle = fields.boolean("shuffle");
  table.seed = fields.unsigned_integer("seed");
  table.rows = row_counts(fields, "rows");
  table.test_rows = row_counts(fields, "test_rows");
  return std::make_shared<Split>(part == "test", std::move(table));
}

OperationPtr read_split_all(const JsonFields& fields, const PlanFunctions&) {
  std::string part = fields.text("part");
  if (part != "test" && part != "train") fields.fail("part", "\"train\" or \"test\"");
  SplitAll::Rows rows{fields.boolean("shuffle"), fields.unsigned_integer("seed"),
                      fields.integer("all_rows", 0, kMaxRows),
                      fields.integer("test_rows", 0, kMaxRows)};
  return std::make_shared<SplitAll>(part == "test", rows);
}

}  // namespace data

std::pair<Dataset, Dataset> Dataset::split_fraction(double fraction,
                                                    const TrainTestSplitOptions& options) const {
  if (!(fraction > 0 && fraction < 1)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("train_test_split: a test_size of ", fraction,
                    " is not between 0 and 1; give a fraction, or a number of rows as an integer"));
  }
  if (!options.stratify.empty()) return data::stratified_split(*this, fraction, 0, options);
  data::require_no_windows(*plan_);
  auto part_of = [&](int64_t all) {
    return static_cast<int64_t>(std::ceil(fraction * static_cast<double>(all)));
  };
  if (plan_->last_materialising()) return data::split_all(*this, part_of, options);
  auto rows = data::rows_per_fragment(plan_);
  auto all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  return data::split(*this, rows, part_of(all), options);
}

std::pair<Dataset, Dataset> Dataset::split_rows(int64_t rows,
                                                const TrainTestSplitOptions& options) const {
  if (!options.stratify.empty()) {
    if (rows < 1 || rows >= count()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("train_test_split: a test_size of ", rows, " rows of ", count(),
                      " leaves one of the parts empty"));
    }
    return data::stratified_split(*this, std::nullopt, rows, options);
  }
  data::require_no_windows(*plan_);
  if (plan_->last_materialising()) {
    return data::split_all(
        *this, [&](int64_t) { return rows; }, options);
  }
  return data::split(*this, data::rows_per_fragment(plan_), rows, options);
}

}  // namespace manta
