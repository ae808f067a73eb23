#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/eventually_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/running_internal.h"

namespace manta {

/// For tests: OpenSSH's server on each host but n0, with its own keys. The destructor kills them.
/// scripts/setup.sh unpacks the program and does not install it, so that the machine gets no new
/// service.
class SshHosts {
 public:
  /// Throws Error(kResources) if sshd or ssh-keygen is not there.
  SshHosts(const NetworkHosts& hosts, int count, const std::string& sshd) {
    for (const std::string& program : {sshd, std::string("/usr/bin/ssh-keygen")}) {
      if (!std::filesystem::exists(program)) {
        throw Error(ErrorKind::kResources, str(program, " is not there (scripts/setup.sh)"));
      }
    }
    for (const char* key : {"host", "user"}) {
      Running made({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)}, {},
                   path("keygen.out"));
      if (made.exit_code() != 0) throw Error(ErrorKind::kIo, "ssh-keygen: " + made.said());
    }
    write_files();
    for (int i = 1; i < count; ++i) {
      // sshd wants its own user and folder, and an account that is not locked.
      std::string prepare =
          str("mount -t tmpfs none /run && mkdir -p /run/sshd && mount --bind ", path("passwd"),
              " /etc/passwd && mount --bind ", path("shadow"), " /etc/shadow && exec \"$@\"");
      daemons_.push_back(std::make_unique<Running>(
          std::vector<std::string>{hosts.enter(), str("n", i), "sh", "-c", prepare, "x", sshd, "-D",
                                   "-e", "-f", path("sshd_config"), "-o",
                                   "ListenAddress=" + NetworkHosts::address(i)},
          std::map<std::string, std::string>{}, path(str("sshd-", i, ".out"))));
    }
    for (auto& each : daemons_) {
      if (!each->says("Server listening")) throw Error(ErrorKind::kIo, "sshd: " + logs());
    }
  }

  /// The command with which the driver reaches them.
  std::string command() const { return "ssh -F " + path("ssh_config") + " {host}"; }
  std::string logs() const {
    std::string text;
    for (const auto& each : daemons_) text += each->said();
    return text;
  }

 private:
  std::string path(const std::string& name) const { return folder_ / name; }

  void write_files() {
    std::ofstream(path("sshd_config"))
        << "HostKey " << path("host") << "\nAuthorizedKeysFile " << path("user.pub")
        << "\nPermitRootLogin yes\nPasswordAuthentication no\nStrictModes no\nUsePAM no\n"
        << "PidFile none\n";
    std::ofstream(path("ssh_config"))
        << "User root\nIdentityFile " << path("user")
        << "\nIdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking no\nLogLevel ERROR\n"
        << "UserKnownHostsFile /dev/null\nConnectTimeout 5\nConnectionAttempts 1\n";
    std::ofstream(path("passwd")) << "root:x:0:0:root:/root:/bin/sh\n"
                                  << "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n";
    std::ofstream(path("shadow")) << "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n";
  }

  TemporaryFolder folder_;
  std::vector<std::unique_ptr<Running>> daemons_;
};

}  // namespace manta
