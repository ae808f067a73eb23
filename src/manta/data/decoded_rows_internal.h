#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "manta/data/piece_internal.h"

namespace manta::data {

/// A number of bytes that several data sets share.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t bytes) : left_(bytes) {}

  int64_t left() const;
  bool take(int64_t bytes);  ///< False, and takes nothing, if fewer are left.
  void give_back(int64_t bytes);

 private:
  mutable std::mutex mutex_;
  int64_t left_;
};

/// The decoded rows of a small data set, kept for its next epochs: the rows of each fragment after
/// the plan's first row operations (see `Pipeline`). Either all of them fit into the budget, or
/// none are kept. Safe to use from several threads.
class DecodedRows {
 public:
  explicit DecodedRows(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ~DecodedRows() { give_up(); }
  DecodedRows(const DecodedRows&) = delete;

  /// Null if the fragment is not kept.
  std::shared_ptr<const Batches> find(size_t fragment) const;
  /// Whether it still keeps rows.
  bool keeps() const;
  /// Takes this many bytes for rows to come. If fewer are left, it gives up, and returns false.
  bool reserve(int64_t bytes);
  void release(int64_t bytes);
  /// `bytes`: the bytes that have been reserved for them.
  void keep(size_t fragment, Batches rows, int64_t bytes);

 private:
  /// Drops all rows and keeps none from now on.
  void give_up();

  const std::shared_ptr<ByteBudget> budget_;
  mutable std::mutex mutex_;
  std::map<size_t, std::shared_ptr<const Batches>> fragments_;
  int64_t bytes_ = 0;
  bool given_up_ = false;
};

/// The rows of a fragment while they are decoded: they count against the budget from the first one
/// on, however large the fragment turns out to be.
class FragmentToKeep {
 public:
  /// `to`: null if the rows are not kept.
  FragmentToKeep(DecodedRows* to, size_t fragment);
  ~FragmentToKeep() { let_go(); }
  FragmentToKeep(const FragmentToKeep&) = delete;

  bool keeps() const { return to_; }
  /// Returns the rows to go on with: the kept rows cannot be written to.
  std::shared_ptr<arrow::RecordBatch> add(std::shared_ptr<arrow::RecordBatch> batch);
  void end();  ///< Call it when all rows have been added.

 private:
  void let_go();

  DecodedRows* to_;  ///< Null once the rows are no longer kept.
  const size_t fragment_;
  Batches rows_;
  int64_t bytes_ = 0;
};

/// The bytes that this many rows of `bytes_of_row` and this many columns count, if they are decoded
/// in batches of `piece_rows`.
int64_t bytes_to_keep(int64_t rows, int64_t bytes_of_row, int columns, int64_t piece_rows);

}  // namespace manta::data
