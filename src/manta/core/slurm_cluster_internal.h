#pragma once

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "manta/core/network_hosts_internal.h"
#include "manta/core/running_internal.h"

namespace manta {

/// For tests: a Slurm cluster with its controller on n0 and a node on each other host, with its own
/// keys, ports and folders. The destructor kills it.
class SlurmCluster {
 public:
  /// `hosts` are n0 to n(count - 1). A node that is silent for `node_timeout_s` is given up. Throws
  /// Error(kResources) if Slurm is not installed.
  SlurmCluster(const NetworkHosts& hosts, int count, int node_timeout_s = 300)
      : hosts_(hosts), node_timeout_s_(node_timeout_s) {
    for (const char* program : {"/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd"}) {
      if (!std::filesystem::exists(program)) {
        throw Error(ErrorKind::kResources, str(program, " is not there (scripts/setup.sh)"));
      }
    }
    write_files(count);
    munged_ = std::make_unique<Running>(
        std::vector<std::string>{
            "/usr/sbin/munged", "--foreground", "--force", "--key-file=" + path("key"),
            "--socket=" + path("munge.socket"), "--pid-file=" + path("munge.pid"),
            "--log-file=" + path("munge.log"), "--seed-file=" + path("munge.seed")},
        std::map<std::string, std::string>{}, path("munge.out"));
    eventually([&] { return std::filesystem::exists(path("munge.socket")); });
    start("n0", {"/usr/sbin/slurmctld", "-D", "-c", "-f", path("slurm.conf")});
    for (int i = 1; i < count; ++i) start_node(i);
    std::string wanted = std::to_string(count - 1) + "\n";
    bool up = eventually([&] {
      Running info({hosts_.enter(), "n0", "sinfo", "-h", "-t", "idle", "-o", "%D"}, environment(),
                   path("sinfo"));
      return info.exit_code() == 0 && info.said() == wanted;
    });
    if (!up) throw Error(ErrorKind::kResources, "Slurm does not start: " + logs());
  }
  /// The environment of Slurm's commands and their programs.
  std::map<std::string, std::string> environment() const {
    return {{"SLURM_CONF", path("slurm.conf")}};
  }
  /// Restarts the node of a host that crashed.
  void restart(int host) { start_node(host); }
  std::string logs() const {
    std::string text;
    for (const auto& each : daemons_) text += each->said();
    return text;
  }

 private:
  std::string path(const std::string& name) const { return folder_ / name; }

  void write_files(int count) {
    std::ofstream(path("key")) << std::string(128, 'k');
    std::filesystem::permissions(path("key"), std::filesystem::perms::owner_read);
    std::filesystem::create_directories(path("state"));
    std::ofstream conf(path("slurm.conf"));
    conf << "ClusterName=manta\nSlurmctldHost=n0(" << NetworkHosts::address(0)
         << ")\nSlurmUser=root\nAuthType=auth/munge\nAuthInfo=socket=" << path("munge.socket")
         << "\nStateSaveLocation=" << path("state") << "\nSlurmdSpoolDir=" << path("spool-%n")
         << "\nSlurmctldPidFile=" << path("ctld.pid") << "\nSlurmdPidFile=" << path("slurmd-%n.pid")
         << "\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
            "JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\n"
            "SelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\nSlurmdTimeout="
         << node_timeout_s_
         << "\nMessageTimeout=5\nTCPTimeout=2\nKillWait=2\nReturnToService=2\nMpiDefault=none\n"
            "EnforcePartLimits=ALL\nCommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n"
            "NodeName=n[1-"
         << count - 1 << "] NodeAddr=";
    for (int i = 1; i < count; ++i) conf << (i == 1 ? "" : ",") << NetworkHosts::address(i);
    conf << " CPUs=2 RealMemory=1000\nPartitionName=all Nodes=ALL Default=YES State=UP\n";
  }

  void start_node(int host) {
    std::string name = str("n", host);
    start(name, {"/usr/sbin/slurmd", "-D", "-f", path("slurm.conf"), "-N", name});
  }

  void start(const std::string& host, std::vector<std::string> words) {
    words.insert(words.begin(), {hosts_.enter(), host});
    daemons_.push_back(
        std::make_unique<Running>(words, environment(), path("daemon-" + host + ".log")));
  }

  const NetworkHosts& hosts_;
  const int node_timeout_s_;
  TemporaryFolder folder_;
  std::unique_ptr<Running> munged_;
  std::vector<std::unique_ptr<Running>> daemons_;
};

}  // namespace manta
