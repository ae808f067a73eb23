#include <parquet/arrow/reader.h>

#include <algorithm>

#include "manta/data/open_files_internal.h"
#include "manta/data/processors_internal.h"

namespace manta::data {

OpenFiles::OpenFiles() : most_(static_cast<size_t>(all_processors())) {}
OpenFiles::~OpenFiles() = default;

std::unique_ptr<parquet::arrow::FileReader> OpenFiles::take(int file, bool in_parts) {
  std::lock_guard lock(mutex_);
  auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& each) {
    return each.file == file && each.in_parts == in_parts;
  });
  if (found == idle_.rend()) return nullptr;
  auto reader = std::move(found->reader);
  idle_.erase(std::next(found).base());
  return reader;
}

void OpenFiles::put(int file, bool in_parts, std::unique_ptr<parquet::arrow::FileReader> reader) {
  std::unique_ptr<parquet::arrow::FileReader> closed;  // destroyed without the lock
  std::lock_guard lock(mutex_);
  idle_.push_back({file, in_parts, std::move(reader)});
  if (idle_.size() <= most_) return;
  closed = std::move(idle_.front().reader);
  idle_.pop_front();
}

}  // namespace manta::data
