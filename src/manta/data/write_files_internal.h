#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "manta/data/dataset.h"

namespace arrow::io {
class OutputStream;
}

namespace manta::data {

/// Writes the rows of one file in some format.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  virtual void write(const std::shared_ptr<arrow::RecordBatch>& batch) = 0;
  /// Writes the end of the file. Does not close the stream.
  virtual void finish() = 0;
};
using MakeWriter = std::function<std::unique_ptr<FileWriter>(
    std::shared_ptr<arrow::io::OutputStream> to, const std::shared_ptr<arrow::Schema>& schema)>;

struct FilesToWrite {
  std::string folder;
  const char* writer = "";  ///< How messages begin: "write_parquet".
  /// The extensions that readers of the folder know: ".json .jsonl". Files are written with the
  /// first.
  const char* extensions = "";
  int64_t rows_per_file = 0;
  bool overwrite = false;
  /// Up to this number, the names of the files sort in the order of their rows.
  int64_t most_files = 100'000;
};

/// Writes all rows of the data set to new files in the folder, in order; returns the number of
/// rows. Each file appears with all its content. If it fails, the files that it has written are
/// removed.
int64_t write_files(const Dataset& dataset, const FilesToWrite& files, const MakeWriter& make);

}  // namespace manta::data
