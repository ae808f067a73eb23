#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/error.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/data_files_internal.h"
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

/// What a plan knows of a file, and by which it sees that the file has changed.
struct FileContent {
  std::vector<int64_t> row_groups;  ///< Rows of each.
  /// Bytes of the file, and the checksum of its footer, which says where all values are and,
  /// mostly, between what they lie. Nothing and "" in a plan of an older version.
  std::optional<int64_t> size;
  std::string footer;
};

/// Parquet files whose rows follow each other. Footers are read when something needs them, once; a
/// file that has changed since then, or since the plan was stored, is Error(kCorrupt). Safe to use
/// from several threads, which read different files at the same time.
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
  static std::shared_ptr<Source> from_json(const JsonFields& fields);

 private:
  struct File {
    std::mutex mutex;  ///< Of what follows. Held while the footer is read.
    std::shared_ptr<parquet::FileMetaData> footer;  ///< Once it was read:
    FileStamp stamp;                                ///< of the file that it was read from.
    std::optional<FileContent> content;             ///< From JSON, or of the footer.
  };

  Source() = default;
  void add_file(std::string path);
  std::shared_ptr<arrow::Schema> schema_of_file(int file, const parquet::FileMetaData& footer);
  void check_same_columns(int file, const arrow::Schema& schema);
  DataFile open_unchanged(int file);

  std::vector<std::string> files_;
  std::vector<std::string> columns_;
  OpenFiles open_files_;
  std::vector<std::unique_ptr<File>> contents_;  ///< By file. A lock of one is taken before mutex_.
  std::mutex mutex_;                             ///< Of everything below.
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Fragment> fragments_;
  bool all_known_ = false;
};

}  // namespace manta::data
