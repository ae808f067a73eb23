#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/json.h"
#include "manta/data/dataset.h"

struct ArrowArrayStream;  // of <arrow/c/abi.h>

/// Where data sets come from, besides read_parquet (dataset.h).
namespace manta::data {

struct ReadCsvOptions {
  std::vector<std::string> columns = {};  ///< In this order. None: all columns of the files.
  /// Types by column, instead of those that are inferred: {{"zip", "string"}}. Names as for `cast`,
  /// and "null". Durations are integers in their unit.
  std::map<std::string, std::string> column_types = {};
  /// The names of the columns, for files without a header line.
  std::vector<std::string> column_names = {};
  char delimiter = ',';
  /// Stands around values that contain delimiters or line ends; a quote in a value is written
  /// twice. '\0': no quotes.
  char quote = '"';
  /// What stands for null, in columns of any type but string.
  std::vector<std::string> null_values = {"",     "NA",   "N/A", "n/a", "#N/A", "#NA", "NULL",
                                          "null", "None", "NaN", "nan", "-NaN", "-nan"};
  bool strings_can_be_null = false;  ///< In columns of strings, too.
  /// A quoted value can be null, too. With false, and `strings_can_be_null`, nulls and empty texts
  /// that write_csv wrote are read as what they were.
  bool quoted_can_be_null = true;
  bool hive_partitions = true;  ///< Folders named `year=2020` are columns: see ReadParquetOptions.
  /// A file is read in parts of about this many bytes, several at a time.
  int64_t fragment_bytes = 8 << 20;
};

/// Rows of CSV files of UTF-8 text, one file after the other. Paths are as for read_parquet, with
/// *.csv files in folders. All files must have the same header. Lines end in \\n, \\r\\n or \\r;
/// empty lines do not count; a byte order mark is skipped.
///
/// Types are inferred from the first values of the first file that has any (1 MiB, at most 100,000
/// rows): the first type that fits all of them, of null, int64, uint64, bool, date32, time32[s],
/// timestamp[s], timestamp[ns], these with a time zone, float64, string, binary. Integers of more
/// than 64 bits, if there are no fractions, are strings: as float64 they would be rounded. This
/// call reads that sample. The files are read once more when their parts are needed, to find where
/// records end.
///
/// Throws Error(kNotFound) for a file or a column that does not exist, Error(kInvalidArgument) for
/// two columns of the same name. When rows are read: Error(kCorrupt) for a line with too few or too
/// many values, and Error(kInvalidArgument) for a value that is not of its column's type; both name
/// file and line.
Dataset read_csv(const std::string& path, const ReadCsvOptions& options = {});
Dataset read_csv(const std::vector<std::string>& paths, const ReadCsvOptions& options = {});

struct ReadJsonOptions {
  std::vector<std::string> columns = {};  ///< In this order; other fields are skipped. None: all.
  /// Types by column, instead of those that are inferred: names as for read_csv, or nested ones as
  /// {{"list", type}} and {{"struct", {{name, type}, ...}}}. A "string" column also takes numbers
  /// and booleans, as they are written. Decimals are numbers that have no more digits than the
  /// type. A column that no line has is all nulls.
  std::map<std::string, Json> column_types = {};
  /// Skip fields that the first lines do not have, in objects within lines, too. Default: an error.
  bool ignore_unknown_fields = false;
  bool hive_partitions = true;  ///< Folders named `year=2020` are columns: see ReadParquetOptions.
  /// A file is read in parts of about this many bytes, several at a time.
  int64_t fragment_bytes = 8 << 20;
};

/// Rows of files of JSON objects, one per line. Paths are as for read_parquet, with *.json, *.jsonl
/// and *.ndjson files in folders. Objects and lists within a line become structs and lists; a field
/// that a line does not have is null there; blank lines do not count.
///
/// Types are inferred from the first lines of the first file that has any (1 MiB): booleans, int64,
/// uint64, float64, texts as date32, time32[s], timestamp[s], timestamp[ns] (also with a time zone)
/// or string, as in read_csv, lists, structs. Integers of more than 64 bits need a type from you.
///
/// Throws Error(kNotFound) for a file or a column that does not exist, Error(kInvalidArgument) for
/// a field with values of different kinds. When rows are read: Error(kCorrupt) for a line that is
/// no JSON object, Error(kInvalidArgument) for a value that is not of its column's type, and for a
/// field that the first lines do not have; all name file and line.
Dataset read_json(const std::string& path, const ReadJsonOptions& options = {});
Dataset read_json(const std::vector<std::string>& paths, const ReadJsonOptions& options = {});

struct ReadTextOptions {
  bool drop_empty_lines = true;
  /// A file is read in parts of about this many bytes, several at a time.
  int64_t fragment_bytes = 8 << 20;
};

/// The lines of text files, in a column "text", without \\n and \\r\\n. Paths are as for
/// read_parquet, with *.txt files in folders. When rows are read, a line that is not UTF-8 is
/// Error(kInvalidArgument), which names it.
Dataset read_text(const std::string& path, const ReadTextOptions& options = {});
Dataset read_text(const std::vector<std::string>& paths, const ReadTextOptions& options = {});

struct ReadBinaryFilesOptions {
  bool include_paths = false;  ///< Adds a column "path".
};

/// A row for each file: its bytes, in a column "bytes". Paths are as for read_parquet, with all
/// files in folders. A file that has changed since (its size, or the time of its last change) is
/// Error(kCorrupt) when it is read.
Dataset read_binary_files(const std::string& path, const ReadBinaryFilesOptions& options = {});
Dataset read_binary_files(const std::vector<std::string>& paths,
                          const ReadBinaryFilesOptions& options = {});

/// The rows of arrays in .npy files, along their first dimension, in a column "data": numbers, or
/// fixed-size lists of the further dimensions. Paths are as for read_parquet, with *.npy files in
/// folders. Arrays are of booleans, integers or floating-point numbers, little-endian, in C order;
/// others are Error(kInvalidArgument), and so are files whose rows differ in type or shape. Reads
/// the first file's header; the others' when rows or their number are needed.
Dataset read_numpy(const std::string& path);
Dataset read_numpy(const std::vector<std::string>& paths);

struct ReadImagesOptions {
  /// Height and width to which all images are resized, by Pillow's bicubic filter. None: all must
  /// have the size of the first.
  std::optional<std::pair<int64_t, int64_t>> size = std::nullopt;
  std::string mode = "RGB";    ///< Or "RGBA", "L" (grey, without a dimension for channels).
  bool include_paths = false;  ///< Adds a column "path".
};

/// A row for each PNG or JPEG file: its pixels, in a column "image" of uint8 as fixed-size lists
/// [height][width][channels], of which `iter_torch_batches` makes one tensor. Paths are as for
/// read_parquet, with *.png, *.jpg and *.jpeg files in folders. Images have at most 64 Mi pixels;
/// their orientation tags are ignored. They are converted to `mode` before they are resized. Throws
/// Error(kCorrupt) for a damaged file, Error(kInvalidArgument) for one of another format or size,
/// when its row is read.
Dataset read_images(const std::string& path, const ReadImagesOptions& options = {});
Dataset read_images(const std::vector<std::string>& paths, const ReadImagesOptions& options = {});

struct ReadSqlOptions {
  /// Types by column, instead of those that are inferred: "int64", "float64", "bool" (of 0 and 1),
  /// "string" or "binary".
  std::map<std::string, std::string> column_types = {};
};

/// The rows that a SELECT on a SQLite file gives, in SQLite's order: that of the query's ORDER BY,
/// or of the rowid if it reads one table. Parts of the rows may each be read by a run of the query
/// of their own, so each run must give the same rows in the same order. Functions that give
/// something else in each run (random, the current time) are Error(kInvalidArgument). The file must
/// be on this machine. It is opened for reading only, and the query can do nothing but read it.
/// File and query are part of the plan.
///
/// A column's type is the one that its table declares (INTEGER: int64, REAL: float64, TEXT: string,
/// BLOB: binary), or that of the values in the first 1,000 rows. When rows are read, a value of
/// another type is Error(kInvalidArgument), which names column and row. A file that has changed
/// (its size, or the time of its last change) is Error(kCorrupt). When the number of rows is first
/// needed, the query is run to count them. While a data set is in use, SQLite holds a shared lock
/// of the file.
Dataset read_sql(const std::string& path, const std::string& query,
                 const ReadSqlOptions& options = {});

/// The numbers 0 to `rows` - 1, in a column "id" of int64.
Dataset range(int64_t rows);

/// The rows of a table, or of batches with the same columns, in memory. Copies nothing but small
/// batches, while they are read. A run sends them to its data reader through shared memory, but
/// cannot store them: restoring it needs the data set again. Throws Error(kInvalidArgument) for two
/// columns of the same name, or batches of different columns.
Dataset from_arrow(const std::shared_ptr<arrow::Table>& table);
Dataset from_arrow(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches);

/// All rows of a stream of Arrow's C data interface, in memory. Takes over the stream. Otherwise as
/// from_arrow.
Dataset from_arrow_stream(ArrowArrayStream* stream);

/// Rows from JSON objects, by the names of their fields, in alphabetical order: `from_items({{{"x",
/// 1}, {"y", true}}, {{"x", 2.5}}})`. A field that is missing is null. Values are booleans,
/// integers (int64), numbers (float64; also if only some have a fraction) or texts. Items that are
/// not objects make a column "item". Throws Error(kInvalidArgument) that names the item if its
/// value does not fit those before it, or is a list or an object. Otherwise as from_arrow.
Dataset from_items(const std::vector<Json>& items);

}  // namespace manta::data
