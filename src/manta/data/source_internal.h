#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"

namespace arrow {
class RecordBatch;
class Schema;
class Status;
}  // namespace arrow

namespace manta {
class Dataset;
}

namespace manta::data {

struct Bound;

/// The unit that a source reads at a time, such as a row group. Its index in Source::fragments()
/// identifies it.
struct Fragment {
  std::optional<int64_t> rows;  ///< Empty: known only after it has been read.
  /// Decides how windows are cut and how progress is shown: `rows`, or an estimate that never
  /// changes. Every process, and every restored run, must cut the same windows, so it is in the
  /// source's JSON.
  int64_t expected_rows = 0;
};

using TakeBatch = std::function<void(std::shared_ptr<arrow::RecordBatch>)>;

/// Where a plan's rows come from. A new source is one file, `source_<name>.cc`, which also defines
/// the function that users call, and one line in source_table.cc. Several threads use a source at a
/// time.
class Source {
 public:
  virtual ~Source() = default;

  /// Its name in JSON and in source_table.cc: "parquet".
  virtual std::string_view name() const = 0;
  /// For explain(), without rows: "read_parquet: 3 files, 12 row groups; first file 'a.parquet'".
  virtual std::string to_string() = 0;
  /// The JSON that its reader in source_table.cc takes, except the name: everything that decides
  /// which rows come, and in which order.
  virtual Json to_json() = 0;
  /// Why a file cannot store this source, because JSON would change it or cannot hold it; empty if
  /// a file can.
  virtual std::string why_not_stored() const = 0;

  /// Names and types of all columns, the same in every fragment.
  virtual std::shared_ptr<arrow::Schema> schema() = 0;
  /// Never changes. The first call may open files, unless the source came from JSON.
  virtual const std::vector<Fragment>& fragments() = 0;
  /// True only if no row of the fragment can satisfy all bounds.
  virtual bool rules_out(size_t fragment, const std::vector<Bound>& bounds) = 0;
  /// Passes the rows of a fragment to `take`, in order, in batches of at most `piece_rows`, with
  /// these columns (none: batches that only have a number of rows). After a failure it may be
  /// called again, and gives the same rows. Error(kIo) means that a retry may help; with any other
  /// kind it will not. If the content is not what the source expected, it throws Error(kCorrupt)
  /// naming the fragment.
  virtual void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
                    const TakeBatch& take) = 0;
  /// The same rows for who keeps all of them, and looks at few values: columns may come
  /// dictionary-encoded (with indices of int32) that `schema` has as their values, if they lie in
  /// the file like that; others, and those of other fragments, as they are.
  virtual void read_coded(size_t fragment, const std::vector<std::string>& columns,
                          int64_t piece_rows, const TakeBatch& take) {
    read(fragment, columns, piece_rows, take);
  }
  /// "row group 3 of 'a.parquet'".
  virtual std::string describe(size_t fragment) const = 0;
  /// Paths and addresses of all files that it reads; none if it reads no files.
  virtual std::vector<std::string> files() const { return {}; }
};

/// A source each of whose fragments lies in one file.
class FileSource : public Source {
 public:
  virtual size_t file_of(size_t fragment) const = 0;  ///< Its index.
};

/// The source in a plan's JSON. Opens no file. Plans from before sources had names read Parquet.
std::shared_ptr<Source> read_source(const JsonFields& fields);
Json source_to_json(Source& source);
/// All columns of a source, as a data set.
Dataset dataset_of(std::shared_ptr<Source> source);

/// The Error for a failed status of reading a file: kCorrupt only if there is no other reason.
Error read_error(const arrow::Status& status, const std::string& doing);

}  // namespace manta::data
