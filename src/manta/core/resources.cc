#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The folders that hold this process's limits for a cgroup-v1 controller (or "" for v2), innermost
// first. Inside a container the path that /proc shows may not exist; the mount's root then carries
// the limits.
std::vector<fs::path> cgroup_folders(const std::string& root, const std::string& controller) {
  fs::path mount = fs::path(root) / "sys/fs/cgroup";
  if (!controller.empty()) mount /= controller;
  fs::path group;
  std::ifstream in(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    std::istringstream parts(line);
    std::string id, controllers, path;
    std::getline(parts, id, ':');
    std::getline(parts, controllers, ':');
    std::getline(parts, path);
    bool match = controllers.empty() == controller.empty() &&
                 ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (controller.empty() ? controllers.empty() : match) group = fs::path(path).relative_path();
  }
  std::vector<fs::path> folders;
  for (; !group.empty(); group = group.parent_path()) folders.push_back(mount / group);
  folders.push_back(mount);
  return folders;
}

double detect_cpus(const std::string& root) {
  cpu_set_t allowed;
  double cpus = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  auto limit = [&](double quota, double period) {
    if (quota > 0 && period > 0) cpus = std::min(cpus, quota / period);
  };
  for (const auto& folder : cgroup_folders(root, "")) {
    double quota = 0, period = 0;
    std::istringstream(first_line(folder / "cpu.max")) >> quota >> period;  // "max 100000" leaves 0
    limit(quota, period);
  }
  for (const auto& folder : cgroup_folders(root, "cpu")) {
    double quota = 0, period = 0;
    std::istringstream(first_line(folder / "cpu.cfs_quota_us")) >> quota;
    std::istringstream(first_line(folder / "cpu.cfs_period_us")) >> period;
    limit(quota, period);
  }
  // Slurm may not confine a job to the processors that it gave to the job.
  if (const char* slurm = std::getenv("SLURM_CPUS_ON_NODE")) limit(std::atof(slurm), 1);
  return cpus >= 1 ? std::floor(cpus) : cpus;
}

int64_t detect_memory(const std::string& root) {
  int64_t memory = 0;
  std::ifstream in(fs::path(root) / "proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("MemTotal:", 0) == 0) memory = std::stoll(line.substr(9)) * 1024;
  }
  auto limit = [&](const std::string& text) {
    int64_t bytes = 0;
    std::istringstream(text) >> bytes;  // "max" leaves 0
    if (bytes > 0) memory = memory == 0 ? bytes : std::min(memory, bytes);
  };
  for (const auto& folder : cgroup_folders(root, "")) limit(first_line(folder / "memory.max"));
  for (const auto& folder : cgroup_folders(root, "memory")) {
    limit(first_line(folder / "memory.limit_in_bytes"));
  }
  return memory;
}

double detect_gpus(const std::string& root) {
  // The process that started this one has chosen the GPUs.
  if (auto visible = visible_gpus()) return static_cast<double>(visible->size());
  std::error_code error;
  double count = 0;
  for (fs::directory_iterator it(fs::path(root) / "proc/driver/nvidia/gpus", error), end;
       !error && it != end; it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

std::optional<std::vector<std::string>> visible_gpus() {
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!variable) return std::nullopt;
  std::vector<std::string> devices;
  std::istringstream in(variable);
  for (std::string each; std::getline(in, each, ',');) {
    if (each == "-1") break;  // like CUDA: devices after it do not count
    devices.push_back(each);
  }
  return devices;
}

Resources detect_resources(const MachineResources& given, const std::string& root) {
  Resources found;
  found.cpus = given.cpus ? *given.cpus : detect_cpus(root);
  found.gpus = given.gpus ? *given.gpus : detect_gpus(root);
  found.memory = given.memory ? *given.memory : detect_memory(root);
  found.custom = given.custom;
  check_resources(found, "the machine (InitOptions::resources)");
  if (found.gpus != std::floor(found.gpus)) {
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("InitOptions::resources.gpus must be a whole number (was {})", found.gpus));
  }
  return found;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

void add_resources(Resources& sum, const Resources& part) {
  sum.cpus += part.cpus;
  sum.gpus += part.gpus;
  sum.memory += part.memory;
  for (const auto& [name, amount] : part.custom) {
    auto found = std::find_if(sum.custom.begin(), sum.custom.end(),
                              [&name = name](const auto& entry) { return entry.first == name; });
    if (found == sum.custom.end()) {
      sum.custom.emplace_back(name, amount);
    } else {
      found->second += amount;
    }
  }
}

double amount_of(const NamedAmounts& amounts, const std::string& name) {
  auto found = std::find_if(amounts.begin(), amounts.end(),
                            [&](const auto& entry) { return entry.first == name; });
  return found == amounts.end() ? 0 : found->second;
}

void check_resources(const Resources& asked, const std::string& what) {
  auto check = [&](const std::string& name, double amount) {
    if (!std::isfinite(amount) || amount < 0 || amount > 1e12) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("{} asks for {} {}: an amount must be a number from 0 to 1e12", what,
                              amount, name));
    }
    if (amount > 0 && amount < 0.0001) {
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("{} asks for {} {}: the smallest share is 0.0001", what, amount, name));
    }
  };
  check("CPU", asked.cpus);
  check("GPU", asked.gpus);
  if (asked.memory < 0) {
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("{} asks for {} bytes of memory: it must not be negative", what, asked.memory));
  }
  std::set<std::string> names;
  for (const auto& [name, amount] : asked.custom) {
    if (name.empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("{} asks for a resource without a name", what));
    }
    if (!names.insert(name).second) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("{} asks for '{}' twice: name a resource once", what, name));
    }
    check(name, amount);
  }
  if (asked.gpus > 1 && asked.gpus != std::floor(asked.gpus)) {
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("{} asks for {} GPU: above 1 the number must be whole", what, asked.gpus));
  }
}

bool is_valid(const Resources& asked) {
  if (asked.cpus >= 0.0001 && asked.cpus < 1e6 && asked.gpus == 0 && asked.memory == 0 &&
      asked.custom.empty()) {
    return true;  // nearly all
  }
  try {
    check_resources(asked, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_labels(const Labels& labels, const std::string& what) {
  std::set<std::string> names;
  for (const auto& [name, value] : labels) {
    if (name.empty() || !names.insert(name).second) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("{} has the label '{}={}': a label needs a name, and each name comes "
                              "once",
                              what, name, value));
    }
  }
}

bool is_valid(const Labels& labels) {
  try {
    check_labels(labels, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_possible(const Resources& asked, const Resources& total) {
  return asked.cpus <= total.cpus && asked.gpus <= total.gpus && asked.memory <= total.memory &&
         std::all_of(asked.custom.begin(), asked.custom.end(), [&](const auto& entry) {
           return entry.second <= amount_of(total.custom, entry.first);
         });
}

std::string format_bytes(int64_t bytes) {
  const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(units); ++unit) amount /= 1024;
  return fmt::format("{:.4g} {}", amount, units[unit]);
}

std::string to_string(const Resources& resources) {
  std::string text;
  auto add = [&](double amount, const std::string& name) {
    if (amount > 0) text += fmt::format("{}{:.6g} {}", text.empty() ? "" : ", ", amount, name);
  };
  add(resources.cpus, "CPU");
  add(resources.gpus, "GPU");
  if (resources.memory > 0) {
    text += (text.empty() ? "" : ", ") + format_bytes(resources.memory) + " memory";
  }
  for (const auto& [name, amount] : resources.custom) add(amount, name);
  return text.empty() ? "nothing" : text;
}

}  // namespace manta
