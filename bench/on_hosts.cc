// Runs a contestant of the suite `hosts` on its own hosts: network namespaces (see
// network_hosts_internal.h), of which n0 has the driver.
//   on_hosts <hosts> [--slurm|--ray] [--options <text>] <program> [arguments]
//                                with MANTA_CLUSTER: agents with 2 CPUs on the other hosts, by the
//                                kind `hosts`, or by a Slurm or Ray cluster that has those hosts as
//                                its nodes; and options of the cluster
//   on_hosts <hosts> --script <python> <script> [arguments]
//                                on a Ray cluster: head on n0, nodes of 2 CPUs
// A line "do <disturbance> <host>" of the program's output is carried out: crash, cut, cut-from
// (what it sends to n0 is lost), cut-to (what n0 sends to it is), heal. Others are passed on.

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/network_hosts_internal.h"
#include "manta/core/ray_cluster_internal.h"
#include "manta/core/slurm_cluster_internal.h"

using namespace manta;

namespace {

constexpr const char* kUsage =
    "usage: on_hosts <hosts> [--slurm|--ray] [--options <text>] <program> [arguments]\n"
    "       on_hosts <hosts> --script <python> <script> [arguments]\n";

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

class Stage {
 public:
  Stage(int count, const std::string& kind, const std::string& options, const std::string& python)
      : hosts_(count), variables_() {
    std::string cluster;
    if (kind == "--slurm") {
      slurm_ = std::make_unique<SlurmCluster>(hosts_, count);
      variables_ = slurm_->environment();
      before_ = {"salloc", "--no-kill", str("-N", count - 1), "--exclusive"};
      cluster = "slurm";
    } else if (kind == "--ray" || kind == "--script") {
      ray_ = std::make_unique<RayCluster>(hosts_, count, python);
      variables_ = RayCluster::environment();
      cluster = kind == "--ray" ? "ray;python=" + python : "";
    } else {
      std::string others;
      for (int i = 1; i < count; ++i) others += str(i == 1 ? "" : ",", "n", i);
      cluster = str("hosts:", others, ";command=", hosts_.enter(),
                    " {host} env MANTA_NODE_RESOURCES=cpus=2;address=", NetworkHosts::address(0));
    }
    if (!options.empty()) cluster += ";" + options;
    if (!cluster.empty()) variables_["MANTA_CLUSTER"] = cluster;
  }

  // Whether it has exited with 0.
  bool run(const std::vector<std::string>& words) {
    std::string command = str(hosts_.enter(), " n0 env");
    for (const auto& [name, value] : variables_) command += str(" ", name, "=", quoted(value));
    for (const auto& word : before_) command += " " + quoted(word);
    for (const auto& word : words) command += " " + quoted(word);
    std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    char* line = nullptr;
    size_t size = 0;
    while (::getline(&line, &size, pipe.get()) > 0) {
      if (std::strncmp(line, "do ", 3) == 0) {
        carry_out(line);
      } else {
        std::cout << line << std::flush;
      }
    }
    ::free(line);
    return ::pclose(pipe.release()) == 0;
  }

 private:
  void carry_out(const std::string& line) {
    size_t space = line.find(' ', 3);
    std::string what = line.substr(3, space - 3);
    int host = space == std::string::npos ? 0 : std::atoi(line.c_str() + space);
    if (what == "crash") {
      hosts_.crash(host);
      if (slurm_) slurm_->restart(host);  // otherwise the job would lose this node
    } else if (what == "cut") {
      hosts_.cut(host);
    } else if (what == "cut-from") {
      hosts_.cut_one_way(host, 0);
    } else if (what == "cut-to") {
      hosts_.cut_one_way(0, host);
    } else if (what == "heal") {
      hosts_.heal();
    } else {
      throw Error(ErrorKind::kInvalidArgument, "no such disturbance: " + line);
    }
  }

  NetworkHosts hosts_;
  std::unique_ptr<SlurmCluster> slurm_;
  std::unique_ptr<RayCluster> ray_;
  std::map<std::string, std::string> variables_;
  std::vector<std::string> before_;  // words before the program's command line
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  bool help = words == std::vector<std::string>{"--help"};
  auto take = [&] {
    std::string word = words.empty() ? "" : words.front();
    if (!words.empty()) words.erase(words.begin());
    return word;
  };
  int count = std::atoi(take().c_str());
  std::string kind, options, python = MANTA_COUNTERPARTS;
  while (!words.empty() && words.front().starts_with("--")) {
    std::string word = take();
    if (word == "--options") {
      options = take();
    } else {
      kind = word;
      if (kind == "--script") python = words.empty() ? "" : words.front();
      if (kind != "--slurm" && kind != "--ray" && kind != "--script") count = 0;
    }
  }
  if (help || count < 1 || words.empty()) {
    (help ? std::cout : std::cerr) << kUsage;
    return help ? 0 : 2;
  }
  try {
    Stage stage(count, kind, options, python);
    return stage.run(words) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "on_hosts: " << error.what() << std::endl;
    return 1;
  }
}
