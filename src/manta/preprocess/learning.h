#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/preprocess/preprocessor.h"

namespace manta {

/// What one thread has seen of the rows in a pass over a data set. Used by that thread only.
class Tally {
 public:
  virtual ~Tally() = default;
  virtual void add(const data::BatchPtr& batch) = 0;
  /// Adds what another thread has seen: `more` is of the same class.
  virtual void merge(Tally& more) = 0;
};

/// A preprocessor that learns in passes over the rows. It may share the passes with others: a Chain
/// lets several of its parts learn at once. All built-in preprocessors that learn are of this kind.
///
/// Batches go to the tallies of several threads in any order. The result must not depend on that
/// order, down to the last bit: count, take extremes, or add without rounding. Where the order
/// matters, derive from Preprocessor and use `fold_batches`.
class LearningPreprocessor : public Preprocessor {
 public:
  void fit(const Dataset& dataset) final;

  /// Whether there is something to learn with these options. If not, `fit` reads nothing.
  virtual bool has_to_learn() const { return true; }
  /// Throws if columns are not there, or of a type that it cannot learn from. Not called if the
  /// columns are not known before rows are read (after map_batches).
  virtual void check_columns(const arrow::Schema& schema) const = 0;
  /// Called before the first pass of a fit.
  virtual void start_learning() {}
  /// Called for each thread of the pass that begins.
  virtual std::unique_ptr<Tally> start_tally() const = 0;
  /// Called at the end of a pass over at least one row. Returns true if it has learned; false if it
  /// needs another pass, and has learned nothing yet. If it throws, nothing has changed.
  virtual bool finish_tally(Tally& all) = 0;
};

namespace internal {

/// Fits a preprocessor of any class. `threads` is for tests; 0: all processors. Returns the number
/// of passes over the data set that it took, except for those of users' classes.
int fit_preprocessor(Preprocessor& preprocessor, const Dataset& dataset, int threads = 0);

}  // namespace internal
}  // namespace manta
