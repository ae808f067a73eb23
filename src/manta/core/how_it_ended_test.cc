#include <gmock/gmock.h>
#include <signal.h>

#include "manta/base/error_of_internal.h"
#include "manta/core/actor.h"
#include "manta/core/how_it_ended_internal.h"

namespace manta {
namespace {

using testing::StartsWith;

struct Fragile {
  void die() { ::raise(SIGKILL); }
  void fail() { throw std::runtime_error("no"); }
};

std::string end_of(const ObjectRef<void>& call) {
  return how_it_ended(error_of([&] { get(call, std::chrono::seconds(50)); }));
}

TEST(HowItEnded, LeavesOutWhichTaskOrCallItWas) {
  EXPECT_THAT(end_of(remote({.max_retries = 0}, [] { ::raise(SIGKILL); })),
              StartsWith("its process "));
  EXPECT_EQ(end_of(remote({.max_retries = 0}, [] { throw std::runtime_error("no"); })),
            "threw std::runtime_error: no");
  auto fragile = actor<Fragile>();
  EXPECT_THAT(end_of(fragile.call<&Fragile::fail>()), StartsWith("call '"))
      << "of an actor's calls there may be several";
  EXPECT_THAT(end_of(fragile.call<&Fragile::die>()), StartsWith("its process "));
  EXPECT_EQ(how_it_ended(Error(ErrorKind::kIo, "something else")), "something else");
}

}  // namespace
}  // namespace manta
