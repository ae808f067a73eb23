// The errors that ranks get when they no longer make the same calls. Ranks are threads here;
// torch/collectives_test.cc runs every operation between processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/io/collectives_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

// Runs `body` as each of two ranks, and returns what each threw, or "".
std::vector<std::string> run_ranks(const std::function<void(Collectives&, WaitWatch&)>& body) {
  UniqueFd region = create_shm_region(2);
  std::vector<std::string> outcomes(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        WaitWatch watch;
        Collectives group(UniqueFd(::dup(region.get())), rank, 2,
                          {.timeout = 30s, .watch = &watch});
        body(group, watch);
      } catch (const Error& error) {
        outcomes[static_cast<size_t>(rank)] = str(kind_name(error.kind()), ": ", error.what());
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  return outcomes;
}

TEST(CollectivesTest, GradientsOfDifferentStepsAreNotAdded) {
  auto outcomes = run_ranks([](Collectives& group, WaitWatch& watch) {
    float gradient = 1;
    for (int64_t step = 1; step < 6; ++step) {
      if (group.rank() == 1 && step == 4) continue;  // it skips a batch
      watch.set_step(step);
      group.allreduce(&gradient, {ElementType::kFloat32, 4, 1}, ReduceKind::kSum);
      watch.set_step(-1);
      group.barrier();
    }
  });
  for (const auto& outcome : outcomes) {
    EXPECT_THAT(outcome, AllOf(HasSubstr("invalid argument: the ranks are at different steps: "
                                         "rank 1 at step 5, rank 0 at step 4"),
                               HasSubstr("the same number of batches")));
  }
}

// A loop that takes its batches on another thread does not know the step.
TEST(CollectivesTest, AStepThatIsNotKnownFitsAny) {
  auto outcomes = run_ranks([](Collectives& group, WaitWatch& watch) {
    watch.set_step(group.rank() == 0 ? 3 : -1);
    group.barrier();
    EXPECT_EQ(watch.collectives(), 1);
    EXPECT_EQ(watch.read().wait.kind, Wait::kNone);
  });
  EXPECT_EQ(outcomes, std::vector<std::string>(2));
}

TEST(CollectivesTest, AWaitingRankIsSeenToWait) {
  std::atomic<WaitWatch*> waiting{nullptr};
  std::string seen;
  auto outcomes = run_ranks([&](Collectives& group, WaitWatch& watch) {
    if (group.rank() == 0) {
      watch.set_step(7);
      waiting = &watch;
    } else {
      while (!waiting.load() || waiting.load()->read().wait.kind == Wait::kNone)
        std::this_thread::yield();
      auto wait = waiting.load()->read().wait;
      seen = str(wait.what, " ", wait.number, " ", wait.step);
    }
    group.barrier();
  });
  EXPECT_EQ(outcomes, std::vector<std::string>(2));
  EXPECT_EQ(seen, "barrier 0 7");
}

}  // namespace
}  // namespace manta
