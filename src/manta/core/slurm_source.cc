// Slurm: inside an allocation (salloc, sbatch) srun starts one agent on each of its nodes; each
// further node is a separate job.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/host_list_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/core/source_command_internal.h"

namespace manta {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// This program may itself be a step, which these variables describe; srun would take them for its
// own.
const std::vector<std::string> kOfOtherSteps = {
    "SLURM_NTASKS",         "SLURM_NPROCS",       "SLURM_NTASKS_PER_NODE", "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES",  "SLURM_STEP_ID",      "SLURM_STEPID",          "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES", "SLURM_DISTRIBUTION", "SLURM_STEP_NUM_TASKS",  "SLURM_TASKS_PER_NODE"};

// For a new job: all variables that say that this program is in a job.
std::vector<std::string> variables_of_this_job() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    std::string text = *entry;
    std::string name = text.substr(0, text.find('='));
    if (name.starts_with("SLURM") && name != "SLURM_CONF") names.push_back(name);
  }
  return names;
}

// The time for an agent to end; an agent that hears nothing has ended itself by then.
constexpr std::chrono::seconds kEndGrace{15};
constexpr const char* kOfJob = "of the Slurm job";  // the srun that starts the first agents
constexpr size_t kMostOutput = 1 << 20;
constexpr size_t kEnoughHosts = 16;  // any host will do

// The output of a command; empty if it fails or takes longer than 10 seconds.
std::string printed_by(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen(("timeout 10 " + command + " 2>/dev/null").c_str(), "re"), ::pclose);
  if (!pipe) return "";
  std::string text(kMostOutput, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe.get()));
  return text;
}

class SlurmSource final : public NodeSource {
 public:
  SlurmSource(EventLoop& loop, ClusterOptions& options, const SourceFiles& files)
      : loop_(loop),
        program_(options.take("program", files.program)),
        folder_(files.session_folder),
        cpus_(options.take_number("cpus", 0)) {
    std::istringstream in(options.take("args"));
    for (std::string word; in >> word;) args_.push_back(word);
    for (const std::string& word : args_) {
      if (!word.starts_with("--export")) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  str("cluster option 'args' has '", word,
                      "': srun must give the agents the variable ", kNodeVariable,
                      ", so they get all variables of this program; set there what they need"));
    }
    if (!options.list.empty()) {
      jobs_ = options.count();
    } else if (variable("SLURM_JOB_ID").empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "the cluster 'slurm' needs an allocation, and SLURM_JOB_ID is not set: start the "
                  "program inside of one, as in: salloc -N3 ./my_program; or say how many jobs of "
                  "one node each it is to start: slurm:3");
    } else {
      look_at_allocation();
    }
    most_ = std::max(expected(), options.max_nodes.value_or(0));
  }

  size_t expected() const override { return nodes_.size() + jobs_; }
  std::vector<std::string> some_hosts() const override {
    if (!nodes_.empty()) return nodes_;
    if (!own_.empty()) return {own_};
    return slurm_hosts(printed_by("sinfo --noheader --Node --format=%o"),
                       printed_by("scontrol show config"));
  }

  void start(const AgentOrder& order, OnFailed on_failed) override {
    order_ = order;
    on_failed_ = std::move(on_failed);
    if (!nodes_.empty()) {
      std::string count = std::to_string(nodes_.size());
      std::vector<std::string> words{"--overlap", "-N" + count, "-n" + count};
      if (!own_.empty()) words.push_back("--exclude=" + own_);
      // Each agent reports the name of its node.
      run(kOfJob, kSlurmNode, words, kOfOtherSteps);
    }
    bring_jobs(jobs_);
  }

  std::map<std::string, size_t> possible(size_t there,
                                         const std::set<std::string>& leaving) const override {
    std::map<std::string, size_t> result;
    for (const auto& node : left_) result[node] = 1;
    for (const auto& name : leaving) {
      if (is_of_allocation(name)) result[name] = 1;
    }
    size_t all = there + result.size();
    if (all < most_) result[""] = most_ - all;
    return result;
  }
  std::vector<std::string> bring(const std::string& node, size_t count) override {
    if (node.empty()) return bring_jobs(count);
    left_.erase(node);
    run(node, node, {"--overlap", "-N1", "-n1", "--nodelist=" + node}, kOfOtherSteps);
    return {node};
  }
  void on_left(const std::string& started_as) override { leave(started_as, kEndGrace); }
  void withdraw(const std::string& started_as) override {
    leave(started_as, std::chrono::seconds(0));
  }
  std::optional<Resources> shape() const override {
    if (cpus_ == 0) return std::nullopt;
    return Resources{.cpus = cpus_};
  }

  std::string said() const override {
    std::string text;
    for (const auto& [name, command] : commands_) text += command->said();
    return text;
  }
  void finish(Deadline deadline) override {
    // srun waits for tasks on a lost node, which it takes to be running.
    if (auto all = commands_.find(kOfJob); all != commands_.end() && left_early_)
      all->second->ask_to_end();
    for (auto& [name, command] : commands_) command->finish(deadline);
    look_.reset();
    ending_.finish(deadline);
  }

 private:
  void look_at_allocation() {
    if (std::atoi(variable("SLURM_STEP_NUM_TASKS").c_str()) > 1) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("srun has started this program ", variable("SLURM_STEP_NUM_TASKS"),
                      " times, and each would be a run of its own: start it once, without srun, "
                      "and it starts its agents itself"));
    }
    nodes_ = expand_host_list(variable("SLURM_JOB_NODELIST"));
    if (auto own = slurm_node_of_driver()) {
      own_ = *own;
      std::erase(nodes_, own_);
    }
  }

  bool is_of_allocation(const std::string& started_as) const {
    return std::find(nodes_.begin(), nodes_.end(), started_as) != nodes_.end();
  }

  void leave(const std::string& started_as, std::chrono::seconds grace) {
    if (is_of_allocation(started_as)) {
      left_early_ = true;
      left_.insert(started_as);
      look_at_job();
    }
    end(started_as, grace);
  }

  // Finds out which nodes the job still has. A node that Slurm has given up (SlurmdTimeout) does
  // not belong to the job any more, and srun cannot start anything there.
  void look_at_job() {
    if (look_ && !look_->has_ended()) return;  // if a node then fails, it looks again
    SourceCommand::Options options;
    options.words = {"squeue", "--noheader", "--jobs=" + variable("SLURM_JOB_ID"), "--format=%N"};
    options.purpose = "to see which nodes the job has";
    options.log = folder_ + "/squeue.log";
    options.on_line = [this](const std::string& line) { on_nodes_of_job(line); };
    try {
      look_ = std::make_unique<SourceCommand>(loop_, options, [](const std::string&) {});
    } catch (const Error& error) {
      log_warning(
          str("it is not known whether the Slurm job still has all of its nodes: ", error.what()));
    }
  }
  void on_nodes_of_job(const std::string& line) {
    std::vector<std::string> of_job;
    try {
      of_job = expand_host_list(line);
    } catch (const Error& error) {
      log_warning(str("squeue does not say which nodes the Slurm job has: ", error.what()));
    }
    if (of_job.empty()) return;  // a job that ends has none, too
    for (const auto& node : std::set(left_)) {
      if (std::find(of_job.begin(), of_job.end(), node) != of_job.end()) continue;
      log_warning(str("Slurm has given up node ", node, ", and has taken it out of job ",
                      variable("SLURM_JOB_ID"),
                      ": instead of it, a job of one node is asked for when a node is needed"));
      left_.erase(node);
      std::erase(nodes_, node);
      ++jobs_;
    }
  }

  // Ends the job, or the step of an allocation, of one agent.
  void end(const std::string& started_as, std::chrono::seconds grace) {
    auto command = commands_.find(started_as);
    if (command == commands_.end()) return;
    ending_.add(std::move(command->second), grace);
    commands_.erase(command);
  }

  std::vector<std::string> bring_jobs(size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      names.push_back(str("job-", ++next_job_));
      std::vector<std::string> words{"--job-name=manta-agent", "-N1", "-n1"};
      words.push_back(cpus_ > 0 ? str("--cpus-per-task=", cpus_) : "--exclusive");
      try {
        run(names.back(), names.back(), words, variables_of_this_job());
      } catch (const Error&) {
        names.pop_back();
        if (names.empty()) throw;
        return names;  // the others are on their way; what is missing is asked for again
      }
    }
    return names;
  }

  // `name`: the node whose end is reported when the command ends.
  void run(const std::string& name, const std::string& started_as, std::vector<std::string> words,
           const std::vector<std::string>& unset) {
    words.insert(words.begin(), "srun");
    words.insert(words.end(), {"--ntasks-per-node=1", "--no-kill", "--kill-on-bad-exit=0",
                               "--wait=0", "--mpi=none", "--unbuffered", "--input=all",
                               str("--export=ALL,", kNodeVariable, "=stdin")});
    words.insert(words.end(), args_.begin(), args_.end());
    words.push_back(program_);  // itself, and not a command that starts it: --bcast copies it
    SourceCommand::Options options;
    options.words = std::move(words);
    options.purpose = "to start agents";
    options.log = str(folder_, "/srun-", ++started_, ".log");
    options.unset = unset;
    auto command =
        std::make_unique<SourceCommand>(loop_, options, [this, name](const std::string& how) {
          on_failed_(name, "srun, which starts its agent, " + how);
        });
    AgentOrder order = order_;
    order.started_as = started_as;
    command->say(order.text());
    command->close_input();
    commands_[name] = std::move(command);
  }

  EventLoop& loop_;
  const std::string program_;
  const std::string folder_;
  const double cpus_;               // of a new job; 0: a whole node
  std::vector<std::string> args_;   // for srun
  std::vector<std::string> nodes_;  // of the allocation, without the driver's own
  std::string own_;                 // the driver's, if it is one of the allocation
  size_t jobs_ = 0;                 // jobs that the run begins with, or has instead of lost nodes
  size_t most_ = 0;
  std::set<std::string> left_;  // nodes of the allocation without an agent
  bool left_early_ = false;     // whether there ever were any
  size_t next_job_ = 0;
  size_t started_ = 0;
  AgentOrder order_;
  OnFailed on_failed_;
  std::map<std::string, std::unique_ptr<SourceCommand>> commands_;
  std::unique_ptr<SourceCommand> look_;
  EndingCommands ending_;
};

}  // namespace

std::vector<std::string> slurm_hosts(const std::string& nodes, const std::string& config) {
  std::vector<std::string> hosts;
  std::istringstream of_nodes(nodes);
  for (std::string address; of_nodes >> address && hosts.size() < kEnoughHosts;) {
    hosts.push_back(address);
  }
  std::istringstream of_config(config);
  for (std::string line; std::getline(of_config, line);) {
    size_t equals = line.find('=');
    if (!line.starts_with("SlurmctldHost") || equals == std::string::npos) continue;
    std::istringstream value(line.substr(equals + 1));
    std::string host;
    value >> host;
    size_t open = host.find('(');
    if (open == 0) continue;  // "(null)"
    if (open != std::string::npos) host = host.substr(open + 1, host.find(')') - open - 1);
    if (!host.empty()) hosts.push_back(host);
  }
  return hosts;
}

std::optional<std::string> slurm_node_of_driver() {
  std::string own = variable("SLURMD_NODENAME");
  auto nodes = expand_host_list(variable("SLURM_JOB_NODELIST"));
  if (std::find(nodes.begin(), nodes.end(), own) == nodes.end()) return std::nullopt;
  return own;
}

std::unique_ptr<NodeSource> make_slurm_source(EventLoop& loop, ClusterOptions& options,
                                              const SourceFiles& files) {
  return std::make_unique<SlurmSource>(loop, options, files);
}

}  // namespace manta
