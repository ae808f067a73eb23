// Runs a contestant of the suite `hosts` on hosts of its own: network namespaces (see
// network_hosts_internal.h), of which n0 has the driver.
//   on_hosts <hosts> [--options <text>] <program> [arguments]
//                                                 with MANTA_CLUSTER: agents with 2 CPUs on the
//                                                 other hosts, and options of the cluster
//   on_hosts <hosts> --ray <python> <script>      on a Ray cluster: head on n0, nodes of 2 CPUs
// A line "do crash 1" or "do cut 1" of the program's output is carried out; others are passed on.

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "manta/base/names_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/ray_cluster_internal.h"

using namespace manta;

namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void carry_out(NetworkHosts& hosts, const std::string& line) {
  size_t space = line.find(' ', 3);
  std::string what = line.substr(3, space - 3);
  int host = std::atoi(line.c_str() + space);
  if (what == "crash") return hosts.crash(host);
  if (what == "cut") return hosts.cut(host);
  throw Error(ErrorKind::kInvalidArgument, "no such disturbance: " + line);
}

int run(NetworkHosts& hosts, const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  char* line = nullptr;
  size_t size = 0;
  while (::getline(&line, &size, pipe.get()) > 0) {
    if (std::strncmp(line, "do ", 3) == 0) {
      carry_out(hosts, line);
    } else {
      std::cout << line << std::flush;
    }
  }
  ::free(line);
  int status = ::pclose(pipe.release());
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  int count = argc > 1 ? std::atoi(argv[1]) : 0;
  bool is_ray = argc > 2 && std::strcmp(argv[2], "--ray") == 0;
  bool has_options = argc > 2 && std::strcmp(argv[2], "--options") == 0;
  if (argc < (is_ray || has_options ? 5 : 3) ||
      count < 1) {  // what follows the program is the program's
    (help ? std::cout : std::cerr)
        << "usage: on_hosts <hosts> [--options <text>] <program> [arguments]\n"
           "       on_hosts <hosts> --ray <python> <script> [arguments]\n";
    return help ? 0 : 2;
  }
  try {
    NetworkHosts hosts(count);
    std::unique_ptr<RayCluster> ray;
    std::string variables;
    if (is_ray) {
      ray = std::make_unique<RayCluster>(hosts, count, argv[3]);
      for (auto& [name, value] : RayCluster::environment()) variables += name + "=" + value + " ";
    } else {
      std::string others;
      for (int i = 1; i < count; ++i) others += str(i == 1 ? "" : ",", "n", i);
      variables =
          "MANTA_CLUSTER=" +
          quoted(str("hosts:", others, ";command=", hosts.enter(),
                     " {host} env MANTA_NODE_RESOURCES=cpus=2;address=", NetworkHosts::address(0),
                     has_options ? str(";", argv[3]) : ""));
    }
    std::string command = str(hosts.enter(), " n0 env ", variables);
    for (int i = is_ray ? 3 : has_options ? 4 : 2; i < argc; ++i) command += " " + quoted(argv[i]);
    return run(hosts, command);
  } catch (const std::exception& error) {
    std::cerr << "on_hosts: " << error.what() << std::endl;
    return 1;
  }
}
