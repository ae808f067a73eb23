#include <arrow/api.h>

#include <cmath>
#include <unordered_map>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/generator_internal.h"
#include "manta/data/operation_split_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/row_mask_internal.h"
#include "manta/data/row_store_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

/// One part of a train_test_split that has the same share of every value of a column.
class StratifiedSplit final : public MaterialisingOperation {
 public:
  struct Options {
    std::string column;
    std::optional<double> fraction;  ///< A fraction of the rows; if none, `rows` counts.
    int64_t rows = 0;
    uint64_t seed = 0;
  };
  StratifiedSplit(bool test, Options options) : test_(test), options_(std::move(options)) {}

  std::string to_string() const override {
    return str("train_test_split(", test_ ? "test" : "train", ", stratify = ", options_.column,
               ", seed = ", options_.seed, ")");
  }
  Json to_json(PlanFunctions&) const override {
    Json json = {{"op", "stratified_split"},
                 {"part", test_ ? "test" : "train"},
                 {"column", options_.column},
                 {"rows", options_.rows},
                 {"seed", options_.seed}};
    if (options_.fraction) json["fraction"] = *options_.fraction;
    return json;
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns({options_.column}, before->field_names(), *this);
    require_key(*before->GetFieldByName(options_.column), to_string());
    return before;
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    if (live && !contains(*live, options_.column)) live->push_back(options_.column);
    return live;
  }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    if (!before) return std::nullopt;
    return test_ ? test_rows(*before) : *before - test_rows(*before);
  }
  bool add_bounds(FileBounds&) const override { return false; }

  // Rows are counted by stratum and kept; then each stratum draws its test rows.
  void run(const AllRows& rows, RowSink& sink) const override {
    RowStore kept(rows.schema, "the rows before " + to_string());
    std::vector<int64_t> counts;
    std::unordered_map<std::string, size_t> strata;
    while (auto batch = rows.next()) {
      schema_after(batch->schema());
      for_each_stratum(*batch, strata, [&](int64_t, size_t stratum) {
        counts.resize(strata.size(), 0);
        ++counts[stratum];
      });
      kept.add(batch);
    }
    if (rows.stopping && rows.stopping()) return;
    auto stored = kept.finish();
    if (stored->rows() == 0) return;
    auto draws = begin_draws(counts, test_rows(stored->rows()));
    for (size_t i = 0; i < stored->fragments().size(); ++i) {
      for (const auto& batch : stored->read(i, stored->schema()->field_names())) {
        std::vector<uint8_t> bits(static_cast<size_t>(batch->num_rows()) / 8 + 1, 0);
        for_each_stratum(*batch, strata, [&](int64_t row, size_t stratum) {
          if (draws[stratum].next() != test_) return;
          bits[static_cast<size_t>(row) / 8] |= static_cast<uint8_t>(1u << (row % 8));
        });
        Piece piece = to_piece(*batch);
        RowMask mask(piece.rows);
        mask.keep_bits(bits.data(), 0);
        mask.apply(piece);
        if (piece.rows > 0) sink.add(to_batch(std::move(piece)));
      }
    }
  }

 private:
  int64_t test_rows(int64_t all) const {
    if (!options_.fraction) return std::min(options_.rows, all);
    return static_cast<int64_t>(std::ceil(*options_.fraction * static_cast<double>(all)));
  }

  template <class Take>
  void for_each_stratum(const arrow::RecordBatch& batch,
                        std::unordered_map<std::string, size_t>& strata, Take take) const {
    auto keys = Key::encode(batch.GetColumnByName(options_.column));
    for (int64_t row = 0; row < keys->length(); ++row) {
      std::string key =
          keys->IsNull(row) ? "null" : "=" + check(keys->GetScalar(row), "strata")->ToString();
      take(row, strata.try_emplace(key, strata.size()).first->second);
    }
  }

  /// Decides row after row which rows of a stratum are test rows (Knuth's algorithm S). The
  /// probability is the number still to be drawn divided by the number of remaining rows, so that
  /// nothing is stored for a row.
  struct Draw {
    Generator generator;
    int64_t rows, test_rows;  ///< Those that remain.

    bool next() {
      bool chosen = static_cast<int64_t>(generator.below(static_cast<uint64_t>(rows))) < test_rows;
      --rows;
      test_rows -= chosen;
      return chosen;
    }
  };
  std::vector<Draw> begin_draws(const std::vector<int64_t>& counts, int64_t rows) const {
    auto shares = allot(counts, rows);
    std::vector<Draw> draws;
    for (size_t i = 0; i < counts.size(); ++i) {
      draws.push_back({Generator({options_.seed, i, kStrata}), counts[i], shares[i]});
    }
    return draws;
  }

  const bool test_;
  const Options options_;
};

}  // namespace

OperationPtr read_stratified_split(const JsonFields& fields, const PlanFunctions&) {
  StratifiedSplit::Options options;
  std::string part = fields.text("part");
  if (part != "test" && part != "train") fields.fail("part", "\"train\" or \"test\"");
  options.column = fields.text("column", kLongestName);
  options.rows = fields.integer("rows", 0, kMaxRows);
  if (fields.has("fraction")) options.fraction = fields.number("fraction", 0, 1);
  options.seed = fields.unsigned_integer("seed");
  return std::make_shared<StratifiedSplit>(part == "test", std::move(options));
}

std::pair<Dataset, Dataset> stratified_split(const Dataset& dataset, std::optional<double> fraction,
                                             int64_t rows, const TrainTestSplitOptions& options) {
  if (!options.shuffle) {
    throw Error(ErrorKind::kInvalidArgument,
                "train_test_split with stratify draws its test rows: set shuffle, too");
  }
  StratifiedSplit::Options all{options.stratify, fraction, rows,
                               options.seed ? *options.seed : draw_seed()};
  return {then(dataset, std::make_shared<StratifiedSplit>(false, all)),
          then(dataset, std::make_shared<StratifiedSplit>(true, all))};
}

}  // namespace data
}  // namespace manta
