#include <charconv>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/core/cluster_options_internal.h"

namespace manta {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each, separator);) parts.push_back(each);
  return parts;
}

std::chrono::milliseconds seconds(const std::string& name, const std::string& text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1e6) {
    throw Error(ErrorKind::kInvalidArgument, str("cluster option '", name, "=", text,
                                                 "': it must be a number of seconds above 0"));
  }
  return std::chrono::milliseconds(static_cast<int64_t>(value * 1000));
}

}  // namespace

ClusterOptions ClusterOptions::parse(const std::string& text) {
  ClusterOptions result;
  auto parts = split(text, ';');
  std::string head = parts.empty() ? "" : parts[0];
  size_t colon = head.find(':');
  result.kind = head.substr(0, colon);
  if (colon != std::string::npos) result.list = split(head.substr(colon + 1), ',');
  for (size_t i = 1; i < parts.size(); ++i) {
    size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the cluster '", text, "' has '", parts[i],
                      "' where an option is expected, such as address=10.0.0.5"));
    }
    result.options[parts[i].substr(0, equals)] = parts[i].substr(equals + 1);
  }
  result.address = result.take("address");
  if (double given = result.take_number("driver_cpus", -1); given >= 0) result.driver_cpus = given;
  auto duration = [&](const char* name, std::chrono::milliseconds& value) {
    std::string given = result.take(name);
    if (!given.empty()) value = seconds(name, given);
  };
  duration("wait", result.wait);
  duration("dead_after", result.dead_after);
  duration("fence_after", result.fence_after);
  duration("idle", result.idle);
  duration("grow_wait", result.grow_wait);
  auto yes_or_no = [&](const char* name, bool& value) {
    std::string given = result.take(name, value ? "yes" : "no");
    if (given != "yes" && given != "no") {
      throw Error(ErrorKind::kInvalidArgument,
                  str("cluster option '", name, "=", given, "': it must be yes or no"));
    }
    value = given == "yes";
  };
  yes_or_no("replace", result.replace);
  yes_or_no("encrypt_objects", result.encrypt_objects);
  auto nodes = [&](const char* name, std::optional<size_t>& value) {
    double given = result.take_number(name, -1);
    if (given >= 0) value = static_cast<size_t>(given);
  };
  nodes("min_nodes", result.min_nodes);
  nodes("max_nodes", result.max_nodes);
  if (result.fence_after <= result.dead_after) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the cluster '", text, "': fence_after must be longer than dead_after (",
                    static_cast<double>(result.dead_after.count()) / 1000,
                    " s): a node must not end while the driver counts on it"));
  }
  return result;
}

std::string ClusterOptions::take(const std::string& name, const std::string& otherwise) {
  auto found = options.find(name);
  if (found == options.end()) return otherwise;
  std::string value = found->second;
  options.erase(found);
  return value;
}

double ClusterOptions::take_number(const std::string& name, double otherwise) {
  std::string text = take(name);
  if (text.empty()) return otherwise;
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e9) {
    throw Error(ErrorKind::kInvalidArgument,
                str("cluster option '", name, "=", text, "': it must be a number, 0 or above"));
  }
  return value;
}

size_t ClusterOptions::count() const {
  size_t count = 0;
  const std::string text = list.size() == 1 ? list[0] : "";
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || count > 100'000) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("the cluster '", kind, "' needs the number of nodes to wait for: write ", kind, ":3"));
  }
  return count;
}

void ClusterOptions::check_all_taken() const {
  if (options.empty()) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("the cluster '", kind, "' has no option '", options.begin()->first, "'"));
}

}  // namespace manta
