#pragma once

#include <string>
#include <utility>
#include <vector>

#include "manta/base/json.h"
#include "manta/xgboost/float_rows_internal.h"
#include "manta/xgboost/library_internal.h"

namespace manta::xgboost {

/// The library's names and values of parameters: lists of metrics as several, numbers and booleans
/// as text, other lists as JSON. Throws Error(kInvalidArgument) naming the parameter for an object
/// or null.
std::vector<std::pair<std::string, std::string>> parameter_texts(const Json& params);

/// Throws the library's own message about a parameter or a value that it does not know, and
/// Error(kInvalidArgument) with its warning for parameters that are not used (unless
/// `validate_parameters` is false).
void check_parameters(const Json& params);

/// A model while it is trained or used.
class Booster {
 public:
  /// `matrices`: those that it will be trained and evaluated on; it keeps their predictions.
  explicit Booster(const std::vector<void*>& matrices = {});
  /// Throws Error(kCorrupt) naming the file if its content is not a model.
  static Booster load(const std::string& path, const std::vector<void*>& matrices = {});

  void set(const std::string& name, const std::string& value);
  void set(const Json& params);
  /// Resets the random choice of columns (colsample_bytree and the like). The library goes on with
  /// a sequence that began in the first round, which a loaded model does not have. Called before
  /// each round, this makes the choice depend only on seed and round.
  void restart_random_choices();
  /// Trains one more round.
  void update(void* matrix);
  /// Its metrics on each of the named matrices, under the library's names: {"train-logloss": 0.5}.
  Json evaluate(const std::vector<std::pair<std::string, void*>>& matrices);
  int rounds() const;
  /// The model in the format of the library's files: UBJSON, which other languages read.
  std::string save() const;

  void set_feature_names(const std::vector<std::string>& names);
  std::vector<std::string> feature_names() const;
  void set_attribute(const std::string& key, const std::string& value);
  /// Empty if there is none.
  std::string attribute(const std::string& key) const;

  void* handle() const { return handle_.get(); }

 private:
  BoosterHandle handle_;
};

/// The file of a checkpoint that holds the model, and its attribute that names the label.
inline constexpr const char* kModelFile = "model.ubj";
inline constexpr const char* kLabelAttribute = "manta.label_column";
/// Its attribute that says which columns are vectors, as JSON: {"v": 3}.
inline constexpr const char* kVectorsAttribute = "manta.vector_columns";
/// The attribute's text; empty if there are no vectors.
std::string vector_widths(const std::vector<FeatureColumn>& columns);
/// The columns from which the model's features come. Throws Error(kCorrupt) if names and attribute
/// do not fit.
std::vector<FeatureColumn> feature_columns(const Booster& booster, const std::string& path);

}  // namespace manta::xgboost
