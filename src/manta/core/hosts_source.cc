// Hosts that a command reaches: ssh, or anything else that runs a program elsewhere.

#include <algorithm>
#include <set>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/core/source_command_internal.h"

namespace manta {
namespace {

// ssh tries a host that is switched off again after 10 seconds, not after TCP's timeout of minutes.
constexpr const char* kSsh =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=1 -o ServerAliveCountMax=3 "
    "{host}";

class HostsSource final : public NodeSource {
 public:
  HostsSource(EventLoop& loop, ClusterOptions& options, const SourceFiles& files)
      : loop_(loop), files_(files), hosts_(options.list), command_(options.take("command", kSsh)) {
    program_ = options.take("program", files.program);
    if (options.max_nodes && *options.max_nodes != hosts_.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "the cluster 'hosts' has as many nodes as it names hosts; it takes no max_nodes");
    }
    if (hosts_.empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "the cluster 'hosts' names no host: write hosts:n1,n2");
    }
    std::set<std::string> names;
    for (const std::string& host : hosts_) {
      if (host.empty() || !names.insert(host).second) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("the cluster 'hosts' names ",
                        host.empty() ? "an empty host" : str("host '", host, "' twice"),
                        ": a host has one agent, which offers all of its processors; name each "
                        "host once, as in hosts:n1,n2"));
      }
    }
    // ssh gives the command to a shell.
    bool plain = std::all_of(program_.begin(), program_.end(), [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("/._-+=,@").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (!plain) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the program '", program_,
                      "' has characters in its path that a shell would not take as they are; "
                      "name another path with ;program="));
    }
  }

  size_t expected() const override { return hosts_.size(); }
  std::vector<std::string> some_hosts() const override { return {hosts_.front()}; }

  void start(const AgentOrder& order, OnFailed on_failed) override {
    order_ = order;
    on_failed_ = std::move(on_failed);
    for (const std::string& host : hosts_) start_one(host);
  }

  std::map<std::string, size_t> possible(size_t,
                                         const std::set<std::string>& leaving) const override {
    std::map<std::string, size_t> result;
    for (const auto& host : left_) result[host] = 1;
    for (const auto& host : leaving) result[host] = 1;
    return result;
  }
  std::vector<std::string> bring(const std::string& host, size_t) override {
    left_.erase(host);
    start_one(host);
    return {host};
  }
  void on_left(const std::string& host) override { left_.insert(host); }
  void withdraw(const std::string& host) override {
    if (auto command = commands_.extract(host)) {
      ending_.add(std::move(command.mapped()), std::chrono::milliseconds(0));
    }
    left_.insert(host);
  }
  std::optional<Resources> shape() const override { return std::nullopt; }

  void finish(Deadline deadline) override {
    for (auto& [host, command] : commands_) command->finish(deadline);
    ending_.finish(deadline);
  }

  std::string said() const override {
    std::string text;
    for (const auto& [host, command] : commands_) {
      std::string words = command->said();
      if (!words.empty()) text += str(text.empty() ? "" : "\n", host, ": ", words);
    }
    return text;
  }

 private:
  std::vector<std::string> command_for(const std::string& host) const {
    std::vector<std::string> words;
    std::istringstream in(command_);
    for (std::string word; in >> word;) {
      for (size_t at; (at = word.find("{host}")) != std::string::npos;) word.replace(at, 6, host);
      words.push_back(word);
    }
    words.insert(words.end(), {"env", str(kNodeVariable, "=stdin"), program_});
    return words;
  }

  void start_one(const std::string& host) {
    AgentOrder order = order_;
    order.started_as = host;
    SourceCommand::Options options;
    options.words = command_for(host);
    options.purpose = "to reach host " + host;
    options.log = str(files_.session_folder, "/agent-", ++started_, ".log");
    auto command =
        std::make_unique<SourceCommand>(loop_, options, [this, host](const std::string& how) {
          on_failed_(host, "the command that starts its agent " + how);
        });
    command->say(order.text());
    command->close_input();
    commands_[host] = std::move(command);
  }

  EventLoop& loop_;
  const SourceFiles files_;
  const std::vector<std::string> hosts_;
  const std::string command_;
  std::string program_;
  std::map<std::string, std::unique_ptr<SourceCommand>> commands_;
  EndingCommands ending_;
  std::set<std::string> left_;  // hosts without an agent
  size_t started_ = 0;
  AgentOrder order_;
  OnFailed on_failed_;
};

}  // namespace

std::unique_ptr<NodeSource> make_hosts_source(EventLoop& loop, ClusterOptions& options,
                                              const SourceFiles& files) {
  return std::make_unique<HostsSource>(loop, options, files);
}

}  // namespace manta
