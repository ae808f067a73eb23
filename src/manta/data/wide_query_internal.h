#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/error.h"
#include "manta/data/duckdb_internal.h"
#include "manta/data/operation_internal.h"

namespace manta::data {

/// What a wide operation may use.
struct WideLimits {
  int64_t memory_bytes = 0;  ///< About as many at the same time; more is spilled to files.
  /// At most: a query has fewer with little memory, so that more rows can be sorted.
  int threads = 1;
  /// Asked now and then; once it is true, the operation ends.
  std::function<bool()> stopping = {};
  WorkCountPtr work = nullptr;  ///< Grows with each part of the work.
};

/// A query needs more memory than it may use, however much it spills. On fewer rows it may not.
class TooLittleMemory final : public Error {
 public:
  explicit TooLittleMemory(const std::string& message) : Error(ErrorKind::kResources, message) {}
};

/// One query of DuckDB, in a database of its own without a file: it has its memory limit, and a
/// temporary folder for what does not fit, which goes away with it (if the process is killed, with
/// the run's folder). The text of the query is made from our plans only: columns are c0, c1, ... of
/// each input, and no value or name of the user's is ever in it.
class WideQuery {
 public:
  explicit WideQuery(WideLimits limits);
  ~WideQuery();
  WideQuery(const WideQuery&) = delete;

  /// Rows that the query reads as `<name>()`, once. The batches of `next` are lanes of these types;
  /// it is called on DuckDB's threads, one at a time. The order of rows is lost if there are
  /// several threads: who needs it has a column for it. `count`: how many rows there are, if that
  /// is known, by which DuckDB chooses the side of a join that it puts into a table.
  void add_input(const std::string& name, std::vector<std::shared_ptr<arrow::DataType>> lanes,
                 NextBatch next, std::optional<int64_t> count = std::nullopt);

  /// Runs it and passes on the rows, as lanes of these types, in batches of kPieceRows, the last
  /// one shorter; text as large_binary, lists as large_list. False if it was stopped. Throws what
  /// `next` threw; TooLittleMemory if memory is exhausted, Error(kIo) if the disk for what does not
  /// fit is.
  bool run(const std::string& sql, const std::vector<std::shared_ptr<arrow::DataType>>& lanes,
           const std::function<void(std::shared_ptr<arrow::RecordBatch>)>& take);

 private:
  struct Input;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A quarter of what this process may use: the machine's memory, or the limit of its cgroup or of
/// one around that. `root`: "/", except in tests (see `detect_resources`).
int64_t default_wide_memory(const std::string& root = "/");

}  // namespace manta::data
