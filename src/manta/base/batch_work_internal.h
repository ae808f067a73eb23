#pragma once

namespace manta {

/// Makes the calling thread batch work for the scheduler. When it wakes up, it does not take the
/// processor from a running thread: it waits until a processor is free or that thread's turn is
/// over. Its share of the processors stays the same. For threads that run beside training loops,
/// where one interrupted step holds up all ranks. Threads and processes that it starts inherit it.
/// Where that is not allowed, nothing changes.
void become_batch_work();

/// Undoes it for the calling thread: for a thread that batch work has started but that is not batch
/// work.
void become_ordinary_work();

}  // namespace manta
