#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/running_internal.h"

namespace manta {

/// A test of programs on several hosts: network namespaces, with the driver on the first, n0, and
/// agents on the others, which offer two CPUs each.
class OnHosts : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(storage()); }
  void make_hosts(int count) {
    try {
      hosts_ = std::make_unique<NetworkHosts>(count);
    } catch (const Error& error) {
      GTEST_SKIP() << "hosts for this test cannot be made here: " << error.what();
    }
    count_ = count;
  }

  std::string storage() const { return folder_ / "runs"; }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// A program that enters a host on which the folder of results, or another folder, is new and
  /// empty.
  std::string enter_without_folder() { return enter_without_folder(storage()); }
  std::string enter_without_folder(const std::string& folder) {
    std::string path = folder_ / "enter_alone";
    std::ofstream(path) << "#!/bin/sh\nhost=$1\nshift\nexec " << hosts_->enter()
                        << " $host sh -c 'mount -t tmpfs none " << folder
                        << " && exec \"$@\"' x \"$@\"\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  /// The value of MANTA_CLUSTER: the other hosts, which `enter` enters. The agents get `variables`.
  std::string cluster(const std::string& enter, const std::string& more,
                      const std::string& variables = "") const {
    std::string others;
    for (int i = 1; i < count_; ++i) others += str(i == 1 ? "" : ",", "n", i);
    return str("hosts:", others, ";command=", enter, " {host} env MANTA_NODE_RESOURCES=cpus=2",
               variables.empty() ? "" : " ", variables, ";address=", NetworkHosts::address(0),
               more);
  }
  std::unique_ptr<Running> start_driver(std::vector<std::string> words,
                                        const std::map<std::string, std::string>& variables) {
    words.insert(words.begin(), {hosts_->enter(), "n0"});
    std::filesystem::remove(folder_ / "driver.out");  // the output of an earlier driver
    return std::make_unique<Running>(words, variables, folder_ / "driver.out");
  }

  void expect_no_processes() const {
    for (int host = 0; host < count_; ++host) {
      EXPECT_TRUE(eventually([&] { return hosts_->processes(host).empty(); })) << "n" << host;
    }
  }
  std::vector<pid_t> processes_named(int host, const std::string& begin) const {
    std::vector<pid_t> found;
    for (pid_t pid : hosts_->processes(host)) {
      std::ifstream in(str("/proc/", pid, "/comm"));
      std::string name;
      std::getline(in, name);
      if (name.starts_with(begin)) found.push_back(pid);
    }
    return found;
  }

  TemporaryFolder folder_;
  int count_ = 0;
  std::unique_ptr<NetworkHosts> hosts_;
};

}  // namespace manta
