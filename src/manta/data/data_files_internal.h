#pragma once

#include <memory>
#include <string>
#include <vector>

namespace arrow::io {
class RandomAccessFile;
}

namespace manta::data {

/// The files that the paths of a `read_parquet` mean, absolute. A path is a file, a folder (all
/// *.parquet files below it, sorted) or a pattern such as `data/2020-*.parquet` (all that match,
/// sorted). Throws Error(kNotFound) if there is none, Error(kInvalidArgument) for addresses such as
/// s3:// and for what is no regular file: opening a fifo would wait for a writer.
std::vector<std::string> find_files(const std::vector<std::string>& paths);

/// Opens a regular file, and nothing else. Throws Error(kNotFound), Error(kInvalidArgument) or
/// Error(kIo), naming it.
std::shared_ptr<arrow::io::RandomAccessFile> open_data_file(const std::string& path);

}  // namespace manta::data
