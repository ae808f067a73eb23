#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/data/dataset.h"

/// Where data sets come from, beside read_parquet (dataset.h).
namespace manta::data {

struct ReadCsvOptions {
  std::vector<std::string> columns = {};  ///< In this order. None: all columns of the files.
  /// Types by column, instead of those that are inferred: {{"zip", "string"}}. Names as for `cast`,
  /// and "null", "binary", "date32", "time32[s]", "timestamp[s]" to "timestamp[ns]", each also as
  /// "timestamp[s, tz=UTC]".
  std::map<std::string, std::string> column_types = {};
  /// Of files without a header line.
  std::vector<std::string> column_names = {};
  char delimiter = ',';
  /// Around values with delimiters or line ends in them; twice for itself. '\0': there are none.
  char quote = '"';
  /// What stands for null, in columns of any type but string.
  std::vector<std::string> null_values = {"",     "NA",   "N/A", "n/a", "#N/A", "#NA", "NULL",
                                          "null", "None", "NaN", "nan", "-NaN", "-nan"};
  bool strings_can_be_null = false;  ///< In columns of strings, too.
  /// Also if it is in quotes. With false, and `strings_can_be_null`, the nulls and the empty texts
  /// that write_csv wrote come back as what they were.
  bool quoted_can_be_null = true;
  /// A file is read in parts of about so many bytes, several at a time.
  int64_t fragment_bytes = 8 << 20;
};

/// Rows of CSV files of UTF-8 text, one file after the other. Paths are as for read_parquet, with
/// *.csv files in folders. All files must have the same header. Lines end in \\n, \\r\\n or \\r;
/// empty lines do not count; a byte order mark is skipped.
///
/// Types are those of the first values of the first file that has any (1 MiB, at most 100,000
/// rows): the first of null, int64, uint64, bool, date32, time32[s], timestamp[s], timestamp[ns],
/// these with a time zone, float64, string, binary that all of them fit. Integers of more than 64
/// bits, if there are no fractions, are strings: as float64 they would be rounded. Reads that
/// sample; the files are read once more when the parts are needed, to find where records end.
///
/// Throws Error(kNotFound) for a file or a column that does not exist, Error(kInvalidArgument) for
/// two columns of the same name and for addresses such as s3://, which cannot be read today. When
/// rows are read: Error(kCorrupt) for a line with too few or too many values, and
/// Error(kInvalidArgument) for a value that is not of its column's type; both name file and line.
Dataset read_csv(const std::string& path, const ReadCsvOptions& options = {});
Dataset read_csv(const std::vector<std::string>& paths, const ReadCsvOptions& options = {});

/// The rows of a table, or of batches with the same columns, in memory. Copies nothing but small
/// batches, while they are read. A run sends them to its data reader through shared memory, but
/// cannot store them: restoring it needs the data set again. Throws Error(kInvalidArgument) for two
/// columns of the same name, or batches of different columns.
Dataset from_arrow(const std::shared_ptr<arrow::Table>& table);
Dataset from_arrow(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches);

/// Rows from JSON objects, by the names of their fields, in alphabetical order:
/// `from_items({{{"x", 1}, {"y", true}}, {{"x", 2.5}}})`. A field that is missing is null. Values
/// are booleans, integers (int64), numbers (float64; also if only some have a fraction) or texts.
/// Items that are no objects are a column "item". Throws Error(kInvalidArgument) that names the
/// item if its value does not fit those before it, or is a list or an object. As from_arrow
/// otherwise.
Dataset from_items(const std::vector<Json>& items);

}  // namespace manta::data
