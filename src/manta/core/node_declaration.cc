#include <charconv>
#include <cstdlib>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/node_declaration_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

std::vector<std::pair<std::string, std::string>> pairs_of(const char* name, const char* example) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const char* text = std::getenv(name);
  std::istringstream in(text ? text : "");
  for (std::string each; std::getline(in, each, ',');) {
    size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(ErrorKind::kInvalidArgument, str(name, " has '", each, "': write ", example));
    }
    pairs.emplace_back(each.substr(0, equals), each.substr(equals + 1));
  }
  return pairs;
}

}  // namespace

Labels declared_labels() {
  Labels labels;
  for (auto& each : pairs_of("MANTA_NODE_LABELS", "zone=a,disk=ssd")) labels.push_back(each);
  check_labels(labels, "MANTA_NODE_LABELS");
  return labels;
}

MachineResources declared_resources() {
  MachineResources declared;
  for (const auto& [name, text] : pairs_of("MANTA_NODE_RESOURCES", "cpus=4,license=2")) {
    double amount = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
    if (error != std::errc() || end != text.data() + text.size() || !(amount >= 0) ||
        amount > 1e15) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("MANTA_NODE_RESOURCES has '", name, "=", text,
                      "': an amount must be a number that is not negative"));
    }
    if (name == "cpus") {
      declared.cpus = amount;
    } else if (name == "gpus") {
      declared.gpus = amount;
    } else if (name == "memory") {
      declared.memory = static_cast<int64_t>(amount);
    } else {
      declared.custom.emplace_back(name, amount);
    }
  }
  return declared;
}

}  // namespace manta
