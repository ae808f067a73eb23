// A Ray cluster (also one that KubeRay runs): a Python program asks it for places, and starts an
// agent in each.

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/core/ray_launcher_internal.h"
#include "manta/core/source_command_internal.h"

namespace manta {
namespace {

// The file in which Ray notes the cluster that was started last on this machine.
constexpr const char* kCurrentCluster = "/tmp/ray/ray_current_cluster";
constexpr size_t kMostText = 1 << 16;

// "ray://10.0.0.5:10001" or "10.0.0.5:6379": 10.0.0.5.
std::string host_of(std::string address) {
  if (size_t scheme = address.find("://"); scheme != std::string::npos) {
    address = address.substr(scheme + 3);
  }
  return address.substr(0, address.rfind(':'));
}

class RaySource final : public NodeSource {
 public:
  RaySource(EventLoop& loop, ClusterOptions& options, const SourceFiles& files)
      : loop_(loop),
        python_(options.take("python", "python3")),
        log_(files.session_folder + "/ray.log"),
        max_nodes_(options.max_nodes) {
    settings_ = {{"address", options.take("ray_address", variable("RAY_ADDRESS", "auto"))},
                 {"nodes", -1},
                 {"cpus", options.take_number("cpus", 0)},
                 {"gpus", options.take_number("gpus", 0)},
                 {"strategy", "STRICT_SPREAD"},
                 {"program", options.take("program", files.program)}};
    if (!options.list.empty()) settings_["nodes"] = options.count();
    std::string placement = options.take("placement", "spread");
    if (placement == "pack") {
      settings_["strategy"] = "PACK";
    } else if (placement != "spread") {
      throw Error(ErrorKind::kInvalidArgument,
                  str("cluster option 'placement=", placement, "': it must be spread or pack"));
    }
  }

  size_t expected() const override { return expected_; }

  std::vector<std::string> some_hosts() const override {
    std::string address = settings_["address"];
    if (address == "auto") {
      std::ifstream in(kCurrentCluster);
      std::getline(in, address);
    }
    std::string host = host_of(address);
    if (host.empty()) return {};
    return {host};
  }

  void start(const AgentOrder& order, OnFailed on_failed) override {
    order_ = order;
    order_.started_as = "{name}";
    on_failed_ = std::move(on_failed);
    SourceCommand::Options options;
    options.words = {python_, "-u", "-c", ray_launcher(), settings_.dump()};
    options.purpose = "to ask Ray for nodes";
    options.log = log_;
    options.on_line = [this](const std::string& line) { on_line(line); };
    command_ = std::make_unique<SourceCommand>(loop_, options, [this](const std::string& how) {
      if (!told_) on_failed_("of the Ray cluster", "what asks Ray for nodes " + how);
    });
  }

  std::map<std::string, size_t> possible(size_t there,
                                         const std::set<std::string>&) const override {
    size_t most = std::max(expected_, max_nodes_.value_or(0));
    if (there >= most || command_->has_ended()) return {};
    return {{"", most - there}};
  }
  std::vector<std::string> bring(const std::string&, size_t count) override {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(str("ray-", next_name_++));
    for (const auto& name : names) command_->say(Json{{"bring", name}}.dump() + "\n");
    return names;
  }
  // If the launcher knows that the agent has ended, its place is free again at once, otherwise a
  // while later.
  void on_left(const std::string& name) override { tell("left", name); }
  void withdraw(const std::string& name) override { tell("withdraw", name); }
  std::optional<Resources> shape() const override {
    return Resources{.cpus = cpus_, .gpus = settings_["gpus"].get<double>()};
  }
  std::string said() const override { return command_ ? command_->said() : ""; }
  void finish(Deadline deadline) override {
    if (command_) command_->finish(deadline);
  }

 private:
  // The caller could not do anything about an error.
  void tell(const char* what, const std::string& name) {
    try {
      command_->say(Json{{what, name}}.dump() + "\n");
    } catch (const Error& error) {
      log_warning(str("the place of node ", name, " is not given back: ", error.what()));
    }
  }

  static std::string variable(const char* name, const std::string& otherwise) {
    const char* value = std::getenv(name);
    return value && *value ? value : otherwise;
  }

  void on_line(const std::string& line) {
    try {
      Json parsed = parse_json(line, "what the launcher of agents says");
      JsonFields said(parsed, JsonDocument("what the launcher of agents says"));
      if (said.has("hello")) {
        expected_ = static_cast<size_t>(said.integer("hello", 0, 100'000));
        next_name_ = expected_;
        cpus_ = said.number("cpus", 0, 1e6);
        command_->say(Json{{"order", order_.text()}}.dump() + "\n");
      } else if (said.has("failed")) {
        told_ = true;
        on_failed_("of the Ray cluster", said.text("failed", kMostText));
      } else if (said.has("warning")) {
        log_warning("Ray: " + said.text("warning", kMostText));
      } else {
        on_failed_(said.text("ended"), said.text("why", kMostText));
      }
    } catch (const Error& error) {
      on_failed_("of the Ray cluster", error.what());
    }
  }

  EventLoop& loop_;
  const std::string python_;
  const std::string log_;
  const std::optional<size_t> max_nodes_;
  Json settings_;
  // 1 until the launcher says how many nodes there are. It says so before the first can join.
  size_t expected_ = 1;
  size_t next_name_ = 0;
  double cpus_ = 0;
  bool told_ = false;
  AgentOrder order_;
  OnFailed on_failed_;
  std::unique_ptr<SourceCommand> command_;
};

}  // namespace

std::unique_ptr<NodeSource> make_ray_source(EventLoop& loop, ClusterOptions& options,
                                            const SourceFiles& files) {
  return std::make_unique<RaySource>(loop, options, files);
}

}  // namespace manta
