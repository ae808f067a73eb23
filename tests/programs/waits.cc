// A driver that cli/status_test.py looks at: a task that takes all processors until standard input
// ends, two that wait for it, and one that waits for their results.

#include <manta/core/init.h>
#include <manta/core/remote.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "usage.h"

using namespace manta;

// The file is removed when the driver's input ends.
void hold(const std::string& path) {
  while (::access(path.c_str(), F_OK) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}
int follow() { return 1; }
int add(int a, int b) { return a + b; }

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}, .labels = {{"zone", "a"}}});
  if (auto done = usage(argc, argv, "waits <file>", 1, 1)) return *done;
  std::string path = argv[1];
  TaskOptions all{.resources = {.cpus = 2}};
  auto held = remote(all, hold, path);
  while (why_waits(held).find("runs in") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  auto first = remote(all, follow), second = remote(all, follow);
  auto sum = remote(add, first, second);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  ::unlink(path.c_str());
  return get(sum) == 2 ? 0 : 1;
}
