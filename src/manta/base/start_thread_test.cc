#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "manta/base/error_of_internal.h"
#include "manta/base/start_thread_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(StartThread, RunsTheFunction) {
  int value = 0;
  start_thread("a test's thread", [&] { value = 1; }).join();
  EXPECT_EQ(value, 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space
TEST(StartThread, SaysWhichThreadCouldNotBeHadAndWhatTheLimitsAre) {
  // Runs in a child process, which has no address space left for a stack.
  pid_t pid = ::fork();
  if (pid == 0) {
    rlimit none{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_AS, &none);
    Error error = error_of([] {
      // The first threads may get the stacks of threads that have ended.
      for (int i = 0; i < 100; ++i) start_thread("the hub's thread", [] { ::pause(); }).detach();
    });
    EXPECT_EQ(error.kind(), ErrorKind::kResources);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("starting the hub's thread: Resource temporarily unavailable"),
                      HasSubstr("1 MiB of address space (ulimit -v)")));
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace manta
