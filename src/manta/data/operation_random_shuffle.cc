#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/generator_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

class RandomShuffle final : public MaterialisingOperation {
 public:
  RandomShuffle(uint64_t seed, bool each_epoch, int64_t memory)
      : seed_(seed), each_epoch_(each_epoch), memory_(memory) {}

  std::string to_string() const override {
    return str("random_shuffle(seed = ", seed_, each_epoch_ ? ", in each epoch" : "", ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "random_shuffle"},
            {"seed", seed_},
            {"each_epoch", each_epoch_},
            {"memory", memory_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    WideColumns(before, to_string());
    return before;
  }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    return before;
  }
  // A row's place is drawn by its number before the shuffle: without some rows, others would move.
  bool add_bounds(FileBounds&) const override { return false; }
  bool depends_on_epoch() const override { return each_epoch_; }
  int64_t memory_bytes() const override { return wide_memory(memory_); }
  bool takes_coded() const override { return true; }

  void run(const AllRows& rows, RowSink& sink) const override {
    uint64_t epoch = each_epoch_ ? static_cast<uint64_t>(rows.epoch) : 0;
    auto keys = [&](const arrow::RecordBatch& batch, int64_t first_row) {
      arrow::UInt64Builder builder;
      check(builder.Reserve(batch.num_rows()), "keys of a shuffle");
      Generator generator({seed_, epoch, kShuffleKeys});
      generator.skip(static_cast<uint64_t>(first_row));
      for (int64_t i = 0; i < batch.num_rows(); ++i) builder.UnsafeAppend(generator.next());
      return arrow::ArrayVector{check(builder.Finish(), "keys of a shuffle")};
    };
    sort_rows(rows, {{arrow::uint64()}}, keys, memory_, to_string(), sink);
  }

 private:
  const uint64_t seed_;
  const bool each_epoch_;
  const int64_t memory_;
};

}  // namespace

OperationPtr read_random_shuffle(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<RandomShuffle>(
      fields.unsigned_integer("seed"), fields.boolean("each_epoch"),
      checked_memory(fields.integer("memory", 0, kMaxRows), "random_shuffle"));
}

}  // namespace data

Dataset Dataset::random_shuffle(const RandomShuffleOptions& options) const {
  return then(*this,
              std::make_shared<data::RandomShuffle>(
                  options.seed ? *options.seed : data::draw_seed(), options.reshuffle_each_epoch,
                  data::checked_memory(options.memory_bytes, "random_shuffle")));
}

}  // namespace manta
