#include <arrow/api.h>

#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/generator_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

class RandomSample final : public FlowOperation {
 public:
  RandomSample(double fraction, uint64_t seed) : fraction_(fraction), seed_(seed) {}

  std::string to_string() const override {
    return str("random_sample(", fraction_, ", seed = ", seed_, ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "random_sample"}, {"fraction", fraction_}, {"seed", seed_}};
  }
  void check_after(const Plan& plan) const override {
    auto* windows = plan.window_operation();
    if (!windows) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("random_sample after ", windows->to_string(),
                    " would draw other rows in every epoch: draw the sample first, then shuffle"));
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    if (fraction_ == 1) return before;
    return fraction_ == 0 ? std::optional<int64_t>(0) : std::nullopt;
  }
  bool may_add_rows() const override { return false; }
  bool add_bounds(FileBounds&) const override { return true; }

  std::unique_ptr<Flow> begin(const Place& place) const override {
    return std::make_unique<Drawn>(fraction_, Generator({seed_, place.fragment, kSampleRows}));
  }

 private:
  class Drawn final : public Flow {
   public:
    Drawn(double fraction, Generator generator) : fraction_(fraction), generator_(generator) {}
    void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
      if (fraction_ == 1) return take(batch);
      // A random number is below `end` with this probability; 2^64 does not fit, and is not needed.
      auto end = static_cast<uint64_t>(std::ldexp(fraction_, 64));
      std::vector<uint8_t> bits(static_cast<size_t>(batch->num_rows()) / 8 + 1, 0);
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        if (generator_.next() >= end) continue;
        auto& byte = bits[static_cast<size_t>(row) / 8];
        byte = static_cast<uint8_t>(byte | 1u << (row % 8));
      }
      Piece piece = to_piece(*batch);
      RowMask mask(piece.rows);
      mask.keep_bits(bits.data(), 0);
      mask.apply(piece);
      if (piece.rows > 0) take(to_batch(std::move(piece)));
    }
    void finish(const TakeBatch&) override {}

   private:
    const double fraction_;
    Generator generator_;
  };

  const double fraction_;
  const uint64_t seed_;
};

}  // namespace

OperationPtr read_random_sample(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<RandomSample>(fields.number("fraction", 0, 1),
                                        fields.unsigned_integer("seed"));
}

}  // namespace data

Dataset Dataset::random_sample(double fraction, const RandomSampleOptions& options) const {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("random_sample needs a fraction from 0 to 1, not ", fraction));
  }
  return then(*this, std::make_shared<data::RandomSample>(
                         fraction, options.seed ? *options.seed : data::draw_seed()));
}

}  // namespace manta
