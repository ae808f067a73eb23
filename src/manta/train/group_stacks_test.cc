#include <gmock/gmock.h>

#include "manta/train/group_stacks_internal.h"

namespace manta::train {
namespace {

// Node 3 does not answer, so after waiting for it there is no time left.
TEST(GroupStacksTest, ANodeThatDoesNotAnswerCostsTheOthersNothing) {
  bool time_is_up = false;
  std::map<uint32_t, std::vector<int32_t>> asked;
  StackSource source;
  source.ask = [&](uint32_t node, const std::vector<int32_t>& pids) {
    EXPECT_FALSE(time_is_up);
    asked[node] = pids;
  };
  source.here = [&](int32_t pid) {
    return std::string(time_is_up ? "  no time\n" : pid == 10 ? "  main\n" : "  read\n");
  };
  source.collect = [&] {
    time_is_up = true;
    return std::map<uint32_t, StackSource::Answer>{{3, {.error = "get timed out"}},
                                                   {5, {.stacks = {"  loop\n", "  wait\n"}}}};
  };
  EXPECT_EQ(stacks_of({{"rank-0", StackOwner::Place{3, 7}},
                       {"rank-1", StackOwner::Place{0, 10}},
                       {"rank-2", StackOwner::Place{5, 7}},
                       {"rank-3", StackOwner::Place{5, 8}},
                       {"data-reader", StackOwner::Place{0, 11}},
                       {"data-reader-2"}},
                      source),
            "rank-0 (pid 7)\n  on another node, from which it did not come: get timed out\n\n"
            "rank-1 (pid 10)\n  main\n\n"
            "rank-2 (pid 7)\n  loop\n\n"
            "rank-3 (pid 8)\n  wait\n\n"
            "data-reader (pid 11)\n  read\n\n"
            "data-reader-2\n  has not joined\n");
  EXPECT_EQ(asked, (std::map<uint32_t, std::vector<int32_t>>{{3, {7}}, {5, {7, 8}}}));
}

}  // namespace
}  // namespace manta::train
