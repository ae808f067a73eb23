#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace manta::data {

/// A count that shows that a pass makes progress, before it gives rows. It grows wherever a bounded
/// part of the work is done (rows of a file are decoded, a function has returned, DuckDB has run a
/// task, a part of the rows is sorted, rows are stored). While it grows, the pass is slow, but does
/// not hang. Any thread may use it.
class WorkCount {
 public:
  void add() { ++done_; }
  int64_t done() const { return done_; }

 private:
  std::atomic<int64_t> done_ = 0;
};
using WorkCountPtr = std::shared_ptr<WorkCount>;

/// Null: does nothing.
inline void count_work(const WorkCountPtr& work) {
  if (work) work->add();
}

}  // namespace manta::data
