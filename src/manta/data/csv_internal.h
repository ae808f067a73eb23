#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "manta/base/json_input_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/part_files_internal.h"
#include "manta/data/source_internal.h"

namespace arrow {
class Buffer;
class DataType;
class Schema;
}  // namespace arrow

namespace manta::data {

inline constexpr FileKind kCsv = {"read_csv", ".csv"};

// ---- csv_types.cc: the types that columns of a CSV file may have, by name.

/// Throws Error(kInvalidArgument) that lists the known names.
std::shared_ptr<arrow::DataType> csv_type(const std::string& name, const char* reader = "read_csv");
std::string csv_type_name(const arrow::DataType& type);
/// The types that are tried, in this order, for a column without a type.
const std::vector<std::shared_ptr<arrow::DataType>>& inferred_csv_types();

// ---- csv_cut.cc: where records begin and end.

/// The options of read_csv that describe the format of the files.
struct CsvFormat {
  char delimiter = ',';
  char quote = '"';  ///< 0: none.
  std::vector<std::string> null_values = {};
  bool strings_can_be_null = false;
  bool quoted_can_be_null = true;
};

using CsvFile = PartFile;

/// The names in the first record, and where the next record begins: after a byte order mark and, if
/// `names` is empty, the header. Throws Error(kInvalidArgument) for a file without a header, or of
/// another encoding.
struct CsvStart {
  std::vector<std::string> names;
  int64_t offset = 0;
};
CsvStart find_start(const CsvFile& file, const CsvFormat& format, std::vector<std::string> names);

/// Cuts the records from `offset` to the end of the file into parts of about `bytes`. A line end
/// within quotes does not end a record. Reads the file once.
FileParts cut_records(const CsvFile& file, const CsvFormat& format, int64_t offset, int64_t bytes);

/// Whole records from `offset` on, about `bytes` bytes, with at least one record that is not an
/// empty line if there is one.
struct CsvText {
  std::shared_ptr<arrow::Buffer> bytes;
  std::string_view records;  ///< The records in `bytes`.
  bool at_end = false;       ///< No records follow.
};
CsvText first_records(const CsvFile& file, const CsvFormat& format, int64_t offset, int64_t bytes);
/// The whole records at the beginning of the text; all of it at the end of a file.
std::string_view whole_records(std::string_view text, const CsvFormat& format, bool at_end);

/// Throws Error(kCorrupt), with the line, if the last record of a file, in the text that begins at
/// `offset`, has a quote that is never closed: the parser would take all following text as its
/// value.
void check_last_record(std::string_view text, const CsvFile& file, const CsvFormat& format,
                       int64_t offset);

// ---- csv_parse.cc: from records to columns.

/// Converts records to columns. Several threads use it at a time.
class CsvRecords {
 public:
  /// `given`: the columns whose type the user gave; the others were inferred.
  CsvRecords(CsvFormat format, std::shared_ptr<arrow::Schema> schema,
             std::vector<std::string> given);

  /// Whole records, which begin at `offset` of the file, in batches of at most `piece_rows`. Throws
  /// Error(kCorrupt), which names file, line and content, if a record has too few or too many
  /// values; Error(kInvalidArgument) if a value is not of its column's type.
  void parse(std::string_view text, const CsvFile& file, int64_t offset,
             const std::vector<std::string>& columns, int64_t piece_rows,
             const TakeBatch& take) const;

 private:
  [[noreturn]] void throw_bad_value(std::string_view text, const CsvFile& file, int64_t offset,
                                    int column) const;

  CsvFormat format_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::string> given_;
};

/// The types of the columns according to the first records, and the number of those records.
struct CsvSample {
  std::shared_ptr<arrow::Schema> schema;
  int64_t rows = 0;
  int64_t bytes = 0;
};
/// `given`: names and types that are not inferred.
CsvSample take_sample(const CsvFile& file, const CsvFormat& format, const CsvStart& start,
                      const std::map<std::string, std::string>& given);

}  // namespace manta::data
