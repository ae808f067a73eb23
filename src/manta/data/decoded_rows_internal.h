#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "manta/data/piece_internal.h"

namespace manta::data {

/// So many bytes, which several data sets share.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t bytes) : left_(bytes) {}

  int64_t left() const;
  bool take(int64_t bytes);  ///< False, and takes nothing, if there are fewer.
  void give_back(int64_t bytes);

 private:
  mutable std::mutex mutex_;
  int64_t left_;
};

/// A small data set as it was decoded, for its next epochs: the rows of each fragment behind the
/// plan's first row operations (see `Pipeline`). Either all of them fit into the budget, or none
/// are kept. Safe to use from several threads.
class DecodedRows {
 public:
  explicit DecodedRows(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ~DecodedRows() { give_up(); }
  DecodedRows(const DecodedRows&) = delete;

  /// All of them may have about so many bytes, those that it keeps among them: gives up if that is
  /// too much.
  void expect(int64_t bytes);
  /// So many more are to be kept: gives up if that is too much.
  void expect_more(int64_t bytes);
  /// Null if the fragment is not kept.
  std::shared_ptr<const Batches> find(size_t fragment) const;
  /// Whether it still keeps rows.
  bool keeps() const;
  void keep(size_t fragment, Batches rows);

 private:
  /// Lets go of all rows and keeps none from now on.
  void give_up();

  const std::shared_ptr<ByteBudget> budget_;
  mutable std::mutex mutex_;
  std::map<size_t, std::shared_ptr<const Batches>> fragments_;
  int64_t bytes_ = 0;
  bool given_up_ = false;
};

/// The rows of a fragment while they are decoded. No more of them are held than the budget allows,
/// however large the fragment turns out to be.
class FragmentToKeep {
 public:
  /// `to`: null if nobody keeps them.
  FragmentToKeep(DecodedRows* to, size_t fragment) : to_(to), fragment_(fragment) {}
  FragmentToKeep(const FragmentToKeep&) = delete;

  bool keeps() const { return to_ && to_->keeps(); }
  void add(std::shared_ptr<arrow::RecordBatch> batch);
  void end();  ///< All of them have been added.

 private:
  DecodedRows* const to_;
  const size_t fragment_;
  Batches rows_;
  int64_t bytes_ = 0;
};

}  // namespace manta::data
