#include "manta/preprocess/function_transformer.h"

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {

FunctionTransformer::FunctionTransformer(std::vector<std::string> columns,
                                         data::PlanFunction function,
                                         const FunctionTransformerOptions& options)
    : inputs_(std::move(columns)),
      outputs_(options.output_columns.empty() ? inputs_ : options.output_columns),
      function_(std::move(function)) {
  data::require_distinct(inputs_, name());
  data::require_distinct(outputs_, str(name(), ", output_columns"));
}

data::BatchPtr FunctionTransformer::transform_batch(const data::BatchPtr& batch) const {
  return function_(batch);
}

Json FunctionTransformer::state() const {
  return {{"columns", inputs_}, {"output_columns", outputs_}, {"function", function_.to_json()}};
}

std::string FunctionTransformer::to_string() const {
  return str(name(), "(", data::join(inputs_), ": ", function_.to_string(), ")");
}

FunctionTransformer FunctionTransformer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  return FunctionTransformer(
      fields.texts("columns", data::kLongestName),
      data::PlanFunction::from_json(fields.object("function")),
      {.output_columns = fields.texts("output_columns", data::kLongestName)});
}

}  // namespace manta
