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

/// A preprocessor that learns in passes over the rows which it may share with others: a Chain
/// counts for several of its parts at once. All built-in ones that learn are of this kind.
///
/// Batches go to the tallies of several threads in any order. What is learned must not depend on
/// that, down to the last bit: count, take extremes, or add without rounding. Where the order
/// matters, derive from Preprocessor and use `fold_batches`.
class LearningPreprocessor : public Preprocessor {
 public:
  void fit(const Dataset& dataset) final;

  /// Whether there is something to learn, with the options that it has: otherwise `fit` reads
  /// nothing.
  virtual bool has_to_learn() const { return true; }
  /// Throws if columns are not there, or of a type that it cannot learn from. Not called if nobody
  /// knows the columns before rows are read (after map_batches): each batch may have any.
  virtual void check_columns(const arrow::Schema& schema) const = 0;
  /// Before the first pass of a fit.
  virtual void start_learning() {}
  /// For a thread of the pass that begins.
  virtual std::unique_ptr<Tally> start_tally() const = 0;
  /// At the end of a pass over at least one row. True if it has learned; false if it needs another
  /// pass, and has learned nothing yet. If it throws, nothing has changed.
  virtual bool finish_tally(Tally& all) = 0;
};

namespace internal {

/// Fits a preprocessor of any class. `threads` is for tests; 0: all processors. Returns the number
/// of passes over the data set that it took, except for those of users' classes.
int fit_preprocessor(Preprocessor& preprocessor, const Dataset& dataset, int threads = 0);

}  // namespace internal
}  // namespace manta
