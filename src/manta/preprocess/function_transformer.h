#pragma once

#include <string>
#include <utility>
#include <vector>

#include "manta/data/plan_function.h"
#include "manta/preprocess/preprocessor.h"

namespace manta {

struct FunctionTransformerOptions {
  /// The columns that the function makes or changes. Default: those that it looks at.
  std::vector<std::string> output_columns = {};
};

/// Calls a function of yours on each batch, in training and in serving. The function takes a batch
/// and returns one with the same number of rows. It must have a name, because a checkpoint keeps it
/// by name:
///
///     static const auto add_speed = manta::named("add_speed", add_speed_to_batch);
///     ...
///     FunctionTransformer({"distance", "duration"}, add_speed, {.output_columns = {"speed"}})
///
/// `columns` are those that the function looks at: only these, and columns that others need, are
/// read and must be in a request. The function gets whole batches, also batches without rows, and
/// must pass on the columns that it does not know. Its second argument, `const Json&`, is `args`.
class FunctionTransformer final : public StatelessPreprocessor {
 public:
  template <class F>
  requires data::TakesBatch<Named<F>> FunctionTransformer(
      std::vector<std::string> columns, const Named<F>& function,
      const FunctionTransformerOptions& options = {})
      : FunctionTransformer(std::move(columns), data::detail::make_plan_function(function, {}),
                            options) {}
  template <class F>
  requires data::TakesBatchAndArgs<Named<F>> && std::same_as<data::ArgsOf<Named<F>>, Json>
  FunctionTransformer(std::vector<std::string> columns, const Named<F>& function, const Json& args,
                      const FunctionTransformerOptions& options = {})
      : FunctionTransformer(std::move(columns),
                            data::detail::make_plan_function(function, internal::to_value(args)),
                            options) {}

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return inputs_; }
  std::vector<std::string> output_columns() const override { return outputs_; }
  std::string name() const override { return "FunctionTransformer"; }
  Json state() const override;
  std::string to_string() const override;
  static FunctionTransformer from_state(const Json& state);

 private:
  FunctionTransformer(std::vector<std::string> columns, data::PlanFunction function,
                      const FunctionTransformerOptions& options);

  std::vector<std::string> inputs_, outputs_;
  data::PlanFunction function_;
};

/// Ray's older name.
using BatchMapper = FunctionTransformer;

}  // namespace manta
