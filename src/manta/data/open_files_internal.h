#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

namespace parquet::arrow {
class FileReader;
}

namespace manta::data {

/// Readers of Parquet files that nobody uses just now. Opening a file anew for each row group costs
/// more than reading a small one. Safe to use from several threads; a reader is for one at a time.
class OpenFiles {
 public:
  OpenFiles();
  ~OpenFiles();

  /// One of this file, or none. `in_parts`: which reads columns in parts, and not at once.
  std::unique_ptr<parquet::arrow::FileReader> take(int file, bool in_parts);
  /// For the next one who needs it. Closes the one that was put first if there are more than
  /// threads that read.
  void put(int file, bool in_parts, std::unique_ptr<parquet::arrow::FileReader> reader);

 private:
  struct Idle {
    int file = 0;
    bool in_parts = false;
    std::unique_ptr<parquet::arrow::FileReader> reader;
  };

  const size_t most_;
  std::mutex mutex_;
  std::deque<Idle> idle_;
};

}  // namespace manta::data
