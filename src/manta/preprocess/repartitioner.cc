#include "manta/preprocess/repartitioner.h"

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {

Repartitioner::Repartitioner(int64_t num_partitions) : num_partitions_(num_partitions) {
  if (num_partitions_ >= 1) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("Repartitioner: num_partitions must be at least 1 (was ", num_partitions_, ")"));
}

Dataset Repartitioner::transform(const Dataset& dataset) const {
  return dataset.repartition(num_partitions_);
}

std::string Repartitioner::to_string() const { return str("Repartitioner(", num_partitions_, ")"); }

Repartitioner Repartitioner::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  return Repartitioner(fields.integer("num_partitions", 1, data::kMaxRows));
}

}  // namespace manta
