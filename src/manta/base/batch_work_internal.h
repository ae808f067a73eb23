#pragma once

namespace manta {

/// Makes the calling thread batch work for the scheduler: when it wakes up, it does not take the
/// processor from a thread that is at work, but waits until one is free or the other's turn is
/// over. Its share of the processors stays what it was. For what runs beside training loops: a step
/// that is interrupted holds up all ranks. Threads and processes that it starts inherit it. Where
/// that is not allowed, nothing changes.
void become_batch_work();

/// Undoes it for the calling thread: for one that batch work has started and that is none.
void become_ordinary_work();

}  // namespace manta
