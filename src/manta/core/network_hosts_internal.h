#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/temporary_folder_internal.h"

namespace manta {

/// For tests: hosts on this machine, each a network namespace with its own name, on a network of
/// their own. They know each other's names. They are removed with everything that runs there, at
/// the latest by the next test that makes such hosts.
class NetworkHosts {
 public:
  /// Hosts n0 to n(count - 1). Throws Error(kResources) with the reason if this user may not make
  /// them.
  explicit NetworkHosts(int count) : prefix_(std::to_string(::getpid())), count_(count) {
    remove_leftovers();
    run("ip link add mb" + prefix_ + " type bridge");
    try {
      run("ip link set mb" + prefix_ + " up");
      for (int i = 0; i < count; ++i) add(i);
    } catch (...) {
      remove();
      throw;
    }
    std::ofstream names(folder_ / "hosts");
    names << "127.0.0.1 localhost\n";
    for (int i = 0; i < count; ++i) names << address(i) << " n" << i << "\n";
    names.close();
    std::ofstream script(enter());
    script << "#!/bin/sh\nhost=$1\nshift\nexec nsenter --net=/run/netns/mh" << prefix_
           << "x${host#n} unshare -um sh -c 'hostname '$host'; mount --bind " << folder_ / "hosts"
           << " /etc/hosts; exec \"$@\"' x \"$@\"\n";
    script.close();
    std::filesystem::permissions(enter(), std::filesystem::perms::owner_all);
  }
  ~NetworkHosts() { remove(); }
  NetworkHosts(const NetworkHosts&) = delete;

  /// A program that runs the rest of its command line on the host that is its first argument.
  std::string enter() const { return folder_ / "enter"; }
  static std::string address(int host) { return str("10.213.0.", host + 1); }
  /// The processes on a host.
  std::vector<pid_t> processes(int host) const {
    std::vector<pid_t> pids;
    std::istringstream out(output("ip netns pids " + name(host)));
    for (pid_t pid; out >> pid;) pids.push_back(pid);
    return pids;
  }
  /// Acts as if its power failed.
  void crash(int host) const {
    for (pid_t pid : processes(host)) ::kill(pid, SIGKILL);
  }
  /// Acts as if its cable were cut: no peer is told.
  void cut(int host) { run("ip link set " + link(host) + " down"); }
  /// Packets of `from` do not reach `to`; those of `to` reach `from`.
  void cut_one_way(int from, int to) {
    filter(str("iifname ", link(from), " oifname ", link(to), " drop"));
  }
  /// Loses `per_thousand` of 1000 packets to and from it.
  void lose_packets(int host, int per_thousand) {
    std::string lost = str(" numgen random mod 1000 < ", per_thousand, " drop");
    filter("iifname " + link(host) + lost);
    filter("oifname " + link(host) + lost);
  }
  /// Undoes the above for all hosts.
  void heal() {
    remove_filter(prefix_);
    for (int host = 0; host < count_; ++host) run("ip link set " + link(host) + " up");
  }
  /// "10.213.0.2:4711" for each address at which something listens there, on TCP, or is bound, on
  /// UDP; of one process only, if it is named.
  std::vector<std::string> listeners(int host, pid_t process = 0) const {
    std::vector<std::string> found;
    std::istringstream out(output("ip netns exec " + name(host) + " ss -Htulnp"));
    for (std::string line; std::getline(out, line);) {
      if (process != 0 && line.find(str("pid=", process, ",")) == std::string::npos) continue;
      std::istringstream fields(line);
      std::string kind, state, received, sent, local;
      fields >> kind >> state >> received >> sent >> local;
      found.push_back(local);
    }
    return found;
  }

 private:
  std::string name(int host) const { return str("mh", prefix_, "x", host); }
  std::string link(int host) const { return str("mv", prefix_, "x", host); }

  void filter(const std::string& rule) {
    std::string table = "bridge mb" + prefix_;
    run("nft add table " + table);
    run("nft 'add chain " + table + " cut { type filter hook forward priority 0; }'");
    run("nft 'add rule " + table + " cut " + rule + "'");
  }
  static void remove_filter(const std::string& prefix) {
    try {
      run("nft delete table bridge mb" + prefix);
    } catch (const Error&) {  // there is none
    }
  }

  static std::string output(const std::string& command) {
    std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>&1").c_str(), "r"), ::pclose);
    std::string text;
    char buffer[4096];
    while (size_t size = std::fread(buffer, 1, sizeof(buffer), pipe.get())) {
      text.append(buffer, size);
    }
    if (::pclose(pipe.release()) != 0) {
      throw Error(ErrorKind::kResources, "'" + command + "' failed: " + text);
    }
    return text;
  }
  static void run(const std::string& command) { output(command); }

  void add(int i) {
    std::string host = name(i);
    run("ip netns add " + host);
    run("ip link add " + link(i) + " type veth peer name eth0 netns " + host);
    run("ip link set " + link(i) + " master mb" + prefix_ + " up");
    run("ip -n " + host + " addr add " + address(i) + "/24 dev eth0");
    run("ip -n " + host + " link set eth0 up");
    run("ip -n " + host + " link set lo up");
  }

  static void remove_prefix(const std::string& prefix) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) {
      std::string host = entry.path().filename();
      if (!host.starts_with("mh" + prefix + "x")) continue;
      try {
        std::istringstream pids(output("ip netns pids " + host));
        for (pid_t pid; pids >> pid;) ::kill(pid, SIGKILL);
        run("ip link del mv" + host.substr(2));  // now: the namespace itself goes later
        run("ip netns del " + host);
      } catch (const Error&) {  // as far as it can be removed
      }
    }
    remove_filter(prefix);
    try {
      run("ip link del mb" + prefix);
    } catch (const Error&) {
    }
  }
  void remove() { remove_prefix(prefix_); }

  static void remove_leftovers() {
    std::error_code error;
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) {
      std::string host = entry.path().filename();
      size_t end = host.find('x');
      if (!host.starts_with("mh") || end == std::string::npos) continue;
      std::string pid = host.substr(2, end - 2);
      if (::kill(std::atoi(pid.c_str()), 0) != 0 && errno == ESRCH) left.push_back(pid);
    }
    for (const auto& pid : left) remove_prefix(pid);
  }

  const std::string prefix_;
  const int count_;
  TemporaryFolder folder_;
};

}  // namespace manta
