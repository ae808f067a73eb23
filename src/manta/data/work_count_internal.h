#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace manta::data {

/// Signs that a pass gets on, before it gives rows: counted wherever a bounded part of the work is
/// done (rows of a file are decoded, a function has returned, DuckDB has run a task, a part of
/// the rows is sorted, rows are stored). Whoever waits for the pass tells work that takes long from
/// a hang by whether it grows. Any thread may use it.
class WorkCount {
 public:
  void add() { ++done_; }
  int64_t done() const { return done_; }

 private:
  std::atomic<int64_t> done_ = 0;
};
using WorkCountPtr = std::shared_ptr<WorkCount>;

/// Null: nobody counts.
inline void count_work(const WorkCountPtr& work) {
  if (work) work->add();
}

}  // namespace manta::data
