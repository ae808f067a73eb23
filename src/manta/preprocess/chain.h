#pragma once

#include <string>
#include <utility>
#include <vector>

#include "manta/preprocess/preprocessor.h"

namespace manta {

/// Preprocessors one after the other. Each is fitted to the data as the parts before it have
/// transformed it. A part may be a Chain.
///
///     Chain(SimpleImputer({"age"}), OneHotEncoder({"city"}), StandardScaler({"age", "fare"}))
///
/// `fit` does not read the data once for each part: parts that look only at columns which no
/// earlier part makes or changes learn in one pass. Here the first two share a pass, and the scaler
/// needs a second one for "age".
class Chain final : public Preprocessor {
 public:
  /// Throws Error(kInvalidArgument) if there is no part, or a part is empty.
  explicit Chain(std::vector<AnyPreprocessor> parts);
  template <std::convertible_to<AnyPreprocessor> First, std::convertible_to<AnyPreprocessor> Second,
            std::convertible_to<AnyPreprocessor>... More>
  Chain(First first, Second second, More... more)
      : Chain(std::vector<AnyPreprocessor>{std::move(first), std::move(second),
                                           std::move(more)...}) {}

  /// Fits every part, even if it is fitted already. If it throws, nothing has changed.
  void fit(const Dataset& dataset) override;
  bool is_fitted() const override;
  /// One operation of the plan, unless a part is a Repartitioner: then one for each part.
  Dataset transform(const Dataset& dataset) const override;
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  /// Without the columns that one part makes for another.
  std::vector<std::string> input_columns() const override;
  std::vector<std::string> output_columns() const override;
  std::vector<std::string> removed_columns() const override;
  std::string name() const override { return "Chain"; }
  Json state() const override;
  std::string to_string() const override;
  static Chain from_state(const Json& state);

  const std::vector<AnyPreprocessor>& parts() const { return parts_; }
  size_t size() const { return parts_.size(); }
  Preprocessor& part(size_t index) { return *parts_.at(index); }

 private:
  std::vector<AnyPreprocessor> parts_;
};

using Pipeline = Chain;

}  // namespace manta
