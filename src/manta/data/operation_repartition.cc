#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/generator_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/row_store_internal.h"

namespace manta {
namespace data {
namespace {

constexpr int64_t kMostBlocks = 1 << 20;
constexpr int64_t kMostBlockBytes = 512 << 20;

class Repartition final : public MaterialisingOperation {
 public:
  explicit Repartition(int64_t blocks) : blocks_(blocks) {}

  std::string to_string() const override { return str("repartition(", blocks_, ")"); }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "repartition"}, {"blocks", blocks_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    return before;
  }
  // Where blocks end depends on the number of rows.
  bool add_bounds(FileBounds&) const override { return false; }

  // Where to cut is known once all rows were counted.
  void run(const AllRows& rows, RowSink& sink) const override {
    RowStore counted(rows.schema, "the rows before " + to_string());
    while (auto batch = rows.next()) counted.add(batch);
    auto stored = counted.finish();
    if (!stored->schema()) return;
    sink.cut_only_where_told(kMostBlockBytes);
    int64_t block = 0, left = block_rows(0, stored->rows());
    for (size_t i = 0; i < stored->fragments().size(); ++i) {
      for (const auto& batch : stored->read(i, stored->schema()->field_names())) {
        for (int64_t row = 0; row < batch->num_rows();) {
          while (left == 0) {
            sink.end_fragment();
            left = block_rows(++block, stored->rows());
          }
          int64_t some = std::min(left, batch->num_rows() - row);
          sink.add(batch->Slice(row, some));
          row += some;
          left -= some;
        }
      }
    }
  }

 private:
  // The first blocks have one row more.
  int64_t block_rows(int64_t block, int64_t rows) const {
    return rows / blocks_ + (block < rows % blocks_ ? 1 : 0);
  }

  const int64_t blocks_;
};

/// The fragments in another order; each stays as it is.
class RandomizeBlockOrder final : public WindowOperation {
 public:
  explicit RandomizeBlockOrder(uint64_t seed) : seed_(seed) {}

  std::string to_string() const override {
    return str("randomize_block_order(seed = ", seed_, ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "randomize_block_order"}, {"seed", seed_}};
  }
  void check_after(const Plan& plan) const override {
    auto* other = plan.window_operation();
    if (!other) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("randomize_block_order after ", other->to_string(),
                    " is not possible: do it before, or shuffle once"));
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return true; }

  std::vector<std::vector<size_t>> windows(const std::vector<Fragment>& fragments,
                                           int64_t) const override {
    std::vector<std::vector<size_t>> windows;
    Generator generator({seed_, kBlockOrder});
    for (size_t fragment : generator.permutation(static_cast<int64_t>(fragments.size()))) {
      windows.push_back({fragment});
    }
    return windows;
  }
  Batches run(const Batches& batches, int64_t, int64_t, int64_t) const override { return batches; }
  int64_t least_rows() const override { return 0; }

 private:
  const uint64_t seed_;
};

int64_t checked_blocks(int64_t blocks) {
  if (blocks >= 1 && blocks <= kMostBlocks) return blocks;
  throw Error(ErrorKind::kInvalidArgument,
              str("repartition needs between 1 and ", kMostBlocks, " blocks, not ", blocks));
}

}  // namespace

OperationPtr read_repartition(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<Repartition>(fields.integer("blocks", 1, kMostBlocks));
}

OperationPtr read_randomize_block_order(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<RandomizeBlockOrder>(fields.unsigned_integer("seed"));
}

}  // namespace data

Dataset Dataset::repartition(int64_t num_blocks) const {
  return then(*this, std::make_shared<data::Repartition>(data::checked_blocks(num_blocks)));
}

Dataset Dataset::randomize_block_order(const RandomizeBlockOrderOptions& options) const {
  return then(*this, std::make_shared<data::RandomizeBlockOrder>(options.seed ? *options.seed
                                                                              : data::draw_seed()));
}

}  // namespace manta
