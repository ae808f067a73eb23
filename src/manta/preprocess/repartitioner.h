#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manta/preprocess/preprocessor.h"

namespace manta {

/// `Dataset::repartition` as a part of a Chain: `transform` of a data set gives the same rows in
/// this many blocks. A batch passes unchanged. Nothing to learn. Programs written for Ray use it to
/// give each worker its rows; in Manta each worker gets its rows whatever the blocks are.
class Repartitioner final : public StatelessPreprocessor {
 public:
  /// Throws Error(kInvalidArgument) for fewer than one.
  explicit Repartitioner(int64_t num_partitions);

  Dataset transform(const Dataset& dataset) const override;
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override { return batch; }
  std::vector<std::string> input_columns() const override { return {}; }
  std::vector<std::string> output_columns() const override { return {}; }
  std::string name() const override { return "Repartitioner"; }
  std::string to_string() const override;
  Json state() const override { return {{"num_partitions", num_partitions_}}; }
  static Repartitioner from_state(const Json& state);

 private:
  int64_t num_partitions_;
};

}  // namespace manta
