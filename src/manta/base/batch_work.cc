#include <sched.h>

#include "manta/base/batch_work_internal.h"

namespace manta {
namespace {

void set_policy(int policy) {
  sched_param none{};
  ::sched_setscheduler(0, policy, &none);
}

}  // namespace

void become_batch_work() { set_policy(SCHED_BATCH); }
void become_ordinary_work() { set_policy(SCHED_OTHER); }

}  // namespace manta
