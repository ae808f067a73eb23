#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/core/patience_internal.h"
#include "manta/core/process_stacks_internal.h"

// Not in an anonymous namespace: their names are what the tests look for.
namespace stacks {

volatile bool go_on = true;

[[gnu::noinline]] void spin_for_ever() {
  while (go_on) {
  }
}
[[gnu::noinline]] void sleep_for_ever() {
  while (go_on) ::pause();
}
[[gnu::noinline]] void with_a_second_thread() {
  std::thread(spin_for_ever).detach();
  sleep_for_ever();
}

}  // namespace stacks

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Child {
 public:
  explicit Child(void (*function)()) : pid_(::fork()) {
    if (pid_ != 0) return;
    function();
    ::_exit(0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  std::string stacks() const { return process_stacks(pid_, Deadline::after(kPatience)); }
  char state() const {
    std::ifstream in(str("/proc/", pid_, "/stat"));
    std::string pid, name;
    char state = 0;
    in >> pid >> name >> state;
    return state;
  }
  // Waits until its stack has the text, and returns it.
  std::string stacks_with(const std::string& text) const {
    std::string found;
    Deadline deadline = Deadline::after(kPatience);
    while (found.find(text) == std::string::npos && !deadline.passed()) found = stacks();
    return found;
  }

 private:
  const pid_t pid_;
};

TEST(ProcessStacksTest, OfAProcessThatSpins) {
  Child child(stacks::spin_for_ever);
  EXPECT_THAT(child.stacks_with("spin"), HasSubstr("stacks::spin_for_ever()"));
  EXPECT_EQ(child.state(), 'R');
}

TEST(ProcessStacksTest, OfAProcessThatIsStoppedAndStaysSo) {
  Child child(stacks::sleep_for_ever);
  child.stacks_with("sleep_for_ever");
  ::kill(child.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_THAT(child.stacks(), AllOf(HasSubstr("stacks::sleep_for_ever()"), HasSubstr("(stopped)")));
  EXPECT_EQ(child.state(), 'T');
}

TEST(ProcessStacksTest, OfEachThread) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer lets no process start a thread that was forked of several";
#endif
  Child child(stacks::with_a_second_thread);
  std::string text = child.stacks_with("spin_for_ever");
  EXPECT_THAT(text, AllOf(HasSubstr("stacks::with_a_second_thread()"),
                          HasSubstr("stacks::spin_for_ever()")));
}

TEST(ProcessStacksTest, OfAProcessThatHasEnded) {
  pid_t pid = 0;
  {
    Child child(stacks::spin_for_ever);
    pid = child.pid();
  }
  EXPECT_EQ(process_stacks(pid, Deadline::after(kPatience)), "  it has ended\n");
}

TEST(ProcessStacksTest, WithoutTimeThereIsNone) {
  Child child(stacks::spin_for_ever);
  EXPECT_EQ(process_stacks(child.pid(), Deadline::after(std::chrono::seconds(-1))),
            "  and 1 more threads\n");
}

}  // namespace
}  // namespace manta
