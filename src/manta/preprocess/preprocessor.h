#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/json.h"
#include "manta/data/dataset.h"

namespace manta {

/// Learns from one data set how to transform others, in training and in prediction. A trainer that
/// has one fits it to the data set "train", applies it to all data sets on their way to the
/// workers, and keeps it in each checkpoint. Predictors apply it, too.
///
/// To write one of your own, derive from it (or from LearningPreprocessor, learning.h, to share
/// passes over the data with others, or from StatelessPreprocessor), define what is pure virtual
/// and a `static T from_state(const Json&)`, and register it by name:
///
///     static const bool log_is_known = register_preprocessor<LogScaler>("LogScaler");
class Preprocessor {
 public:
  virtual ~Preprocessor() = default;

  /// Learns from all rows; forgets what it learned before. If it throws, nothing has changed. Reads
  /// the rows in this process: `fold_batches` does so on all processors.
  virtual void fit(const Dataset& dataset) = 0;
  virtual bool is_fitted() const = 0;
  /// Returns one row for each row of the batch, in the same order. The columns of the result must
  /// depend only on the columns of the batch, which may have no rows. Called by several threads at
  /// a time, and for each request that is served. Throws Error(kInvalidArgument) before `fit`,
  /// Error(kNotFound) for a column that is not there.
  virtual data::BatchPtr transform_batch(const data::BatchPtr& batch) const = 0;

  /// The columns that `transform_batch` looks at: those that it needs and does not just pass on.
  virtual std::vector<std::string> input_columns() const = 0;
  /// The columns that `transform_batch` makes or changes. Together with `input_columns` this
  /// determines the columns that a row must have for a model: the model's features, unless this
  /// preprocessor makes them, and the columns that it makes them from.
  virtual std::vector<std::string> output_columns() const = 0;
  /// The columns of the batch that the result does not have.
  virtual std::vector<std::string> removed_columns() const { return {}; }
  /// The name under which it is registered.
  virtual std::string name() const = 0;
  /// Its options and what it has learned, as `from_state` takes them.
  virtual Json state() const = 0;
  /// For people: "StandardScaler(a, b)".
  virtual std::string to_string() const;

  /// A data set whose rows pass through `transform_batch` when they are read. It holds a copy of
  /// this preprocessor as it is now. Throws at once if the columns do not fit. (Virtual for classes
  /// that change the blocks of a data set, as Repartitioner does; all others define
  /// transform_batch.)
  virtual Dataset transform(const Dataset& dataset) const;
  Dataset fit_transform(const Dataset& dataset) {
    fit(dataset);
    return transform(dataset);
  }
  /// Name and state, with a version, as files keep them. Throws Error(kInvalidArgument) if no
  /// preprocessor of that name is registered: nothing could read it again.
  Json to_json() const;

 protected:
  Preprocessor() = default;
  Preprocessor(const Preprocessor&) = default;
  Preprocessor& operator=(const Preprocessor&) = default;
};

/// A preprocessor with nothing to learn.
class StatelessPreprocessor : public Preprocessor {
 public:
  void fit(const Dataset&) final {}
  bool is_fitted() const final { return true; }
};

/// A second base of preprocessors whose transformation can be undone.
class Invertible {
 public:
  virtual ~Invertible() = default;
  /// Undoes `transform_batch`, as far as its result allows: reads the output columns and writes the
  /// input columns.
  virtual data::BatchPtr inverse_transform_batch(const data::BatchPtr& batch) const = 0;
  /// A data set whose rows pass through `inverse_transform_batch` when they are read. Otherwise as
  /// Preprocessor::transform.
  Dataset inverse_transform(const Dataset& dataset) const;

 protected:
  Invertible() = default;
  Invertible(const Invertible&) = default;
  Invertible& operator=(const Invertible&) = default;
};

/// A preprocessor of any class, or none. Copies are independent: fitting one does not fit another.
class AnyPreprocessor {
 public:
  AnyPreprocessor() = default;  ///< None.
  template <std::derived_from<Preprocessor> T>
  AnyPreprocessor(T preprocessor)  // NOLINT: each preprocessor is one
      : held_(std::make_unique<T>(std::move(preprocessor))),
        copy_([](const Preprocessor& from) -> std::unique_ptr<Preprocessor> {
          return std::make_unique<T>(static_cast<const T&>(from));
        }) {}
  /// What Preprocessor::to_json wrote. Throws Error(kNotFound) if this program has none of that
  /// name, Error(kCorrupt) naming `document` if it is something else.
  static AnyPreprocessor from_json(const Json& json, const std::string& document);

  AnyPreprocessor(const AnyPreprocessor& from)
      : held_(from.held_ ? from.copy_(*from.held_) : nullptr), copy_(from.copy_) {}
  AnyPreprocessor(AnyPreprocessor&&) = default;
  AnyPreprocessor& operator=(AnyPreprocessor from) {
    std::swap(held_, from.held_);
    std::swap(copy_, from.copy_);
    return *this;
  }

  explicit operator bool() const { return held_ != nullptr; }
  Preprocessor& operator*() { return *held_; }
  const Preprocessor& operator*() const { return *held_; }
  Preprocessor* operator->() { return held_.get(); }
  const Preprocessor* operator->() const { return held_.get(); }

 private:
  std::unique_ptr<Preprocessor> held_;
  std::unique_ptr<Preprocessor> (*copy_)(const Preprocessor&) = nullptr;
};

namespace internal {

/// Calls `transform_batch` and checks its result: the same number of rows, and a valid batch.
/// Otherwise throws Error(kUserCode) naming the preprocessor. Training and prediction call this
/// function.
data::BatchPtr transform_rows(const Preprocessor& preprocessor, const data::BatchPtr& rows);
/// Throws Error(kInvalidArgument) if it is not fitted.
void require_fitted(const Preprocessor& preprocessor);

using MakePreprocessor = AnyPreprocessor (*)(const Json& state);
void add_preprocessor(const std::string& name, MakePreprocessor make);

/// A plan may hold a preprocessor, so code that reads plans must be able to make one: this links
/// it.
bool link_preprocessors();
inline const bool preprocessors_linked = link_preprocessors();

}  // namespace internal

/// Lets files name a preprocessor of class T. `name` must be what its `name()` returns. Call it
/// before `main`, once for each name. Returns true, so that it can initialise a variable.
template <std::derived_from<Preprocessor> T>
bool register_preprocessor(const std::string& name) {
  internal::add_preprocessor(
      name, [](const Json& state) -> AnyPreprocessor { return T::from_state(state); });
  return true;
}

}  // namespace manta
