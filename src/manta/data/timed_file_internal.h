#pragma once

#include <memory>

namespace arrow::io {
class RandomAccessFile;
}

namespace manta::data {

/// The same file; the time of each read is added to `file_nanoseconds` of the thread that reads.
std::shared_ptr<arrow::io::RandomAccessFile> timed_file(
    std::shared_ptr<arrow::io::RandomAccessFile> file);

}  // namespace manta::data
