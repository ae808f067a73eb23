#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

namespace parquet::arrow {
class FileReader;
}

namespace manta::data {

/// Readers of Parquet files that are not in use at the moment. Opening a file anew for each row
/// group costs more than reading a small row group. Safe to use from several threads; a reader is
/// for one thread at a time.
class OpenFiles {
 public:
  OpenFiles();
  ~OpenFiles();

  /// Takes a reader of this file, or none. `in_parts`: one that reads columns in parts, not at
  /// once.
  std::unique_ptr<parquet::arrow::FileReader> take(int file, bool in_parts);
  /// Puts a reader back for the next thread that needs it. If there are more readers than threads
  /// that read, closes the one that was put first.
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
