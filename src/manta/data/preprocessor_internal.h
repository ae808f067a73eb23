#pragma once

#include <memory>
#include <string>

#include "manta/base/json.h"
#include "manta/data/dataset.h"

namespace manta {

/// Learns from one data set how to transform others, in training and in prediction alike.
class Preprocessor {
 public:
  virtual ~Preprocessor() = default;
  /// The name under which it was registered.
  virtual std::string name() const = 0;
  virtual void fit(const Dataset& dataset) = 0;
  virtual bool is_fitted() const = 0;
  /// Throws Error(kInvalidArgument) before `fit`.
  virtual Dataset transform(const Dataset& dataset) const = 0;
  /// What it has learned, as input for the function that it was registered with.
  virtual Json state() const = 0;
};

using MakePreprocessor = std::shared_ptr<Preprocessor> (*)(const Json& state);
/// Lets preprocessor_from_json find it. Call it before `main`, once for each name. Returns true, so
/// that it can initialise a variable.
bool register_preprocessor(const std::string& name, MakePreprocessor make);

/// Its name and state, as files keep them.
Json preprocessor_to_json(const Preprocessor& preprocessor);
/// The reverse: a fitted preprocessor. Throws Error(kNotFound) if this program has none of that
/// name, Error(kCorrupt) naming `document` if the JSON is something else.
std::shared_ptr<Preprocessor> preprocessor_from_json(const Json& json, const std::string& document);

}  // namespace manta
