#include "manta/io/eager_loop_internal.h"
#include "manta/io/eager_wait_internal.h"

namespace manta {

void run_eagerly(EventLoop& loop) {
  EagerWait eager;
  auto& context = loop.context;
  while (true) {
    context.poll();
    if (context.stopped()) return;
    auto begin = Clock::now();
    bool found = eager.look([&] { return context.poll() > 0 || context.stopped(); });
    if (!found) context.run_one();
    eager.add(Clock::now() - begin);
  }
}

}  // namespace manta
