#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "manta/base/error.h"
#include "manta/base/json.h"
#include "manta/data/open_files_internal.h"

namespace arrow {
class RecordBatch;
class Schema;
class Status;
}  // namespace arrow
namespace parquet {
class FileMetaData;
}

namespace manta::data {

/// The Error for a status that reading a file gave: damage only if it is none of the other reasons.
Error read_error(const arrow::Status& status, const std::string& doing);

/// A row group of a file: what is read at a time.
struct Fragment {
  int file = 0;
  int row_group = 0;
  int64_t rows = 0;
  bool operator==(const Fragment&) const = default;
};

/// Parquet files whose rows follow each other. Footers are read when something needs them, once.
/// Safe to use from several threads.
class Source {
 public:
  /// `paths` are files, folders and patterns: see `find_files`. `columns`: those that must be
  /// there, of equal types in all files; none: all of the first file's.
  Source(const std::vector<std::string>& paths, std::vector<std::string> columns);

  const std::vector<std::string>& files() const { return files_; }
  /// The columns that the user asked for, in that order; else all of the first file.
  std::shared_ptr<arrow::Schema> schema();
  /// Opens every file, the first time, and checks that their columns agree.
  const std::vector<Fragment>& fragments();
  /// Those of a source from JSON, or that were asked for before. Opens nothing.
  const std::vector<Fragment>& known_fragments() const { return fragments_; }
  std::shared_ptr<parquet::FileMetaData> footer(int file);
  /// Reads one row group and gives it to `take` in pieces of at most `piece_rows` rows, with their
  /// columns in the file's order. Errors name the file and the row group; a row group that does not
  /// have as many rows as the footer says is one.
  void read(const Fragment& fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const std::function<void(std::shared_ptr<arrow::RecordBatch>)>& take);
  /// "row group 3 of 'a.parquet'".
  std::string describe(const Fragment& fragment) const;

  Json to_json();
  static std::shared_ptr<Source> from_json(const Json& json);

 private:
  Source() = default;
  std::shared_ptr<parquet::FileMetaData> load_footer(int file);
  std::shared_ptr<arrow::Schema> schema_of_file(int file);
  void check_same_columns(int file, const arrow::Schema& schema);

  std::vector<std::string> files_;
  std::vector<std::string> columns_;
  OpenFiles open_files_;
  std::mutex mutex_;  ///< Of everything below.
  std::vector<std::shared_ptr<parquet::FileMetaData>> footers_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Fragment> fragments_;
  std::vector<std::vector<int64_t>> row_groups_;  ///< Rows per row group, per file, once known.
  bool all_known_ = false;
};

}  // namespace manta::data
