// Nodes that come by themselves: any agent that has the file that the driver writes may join.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

class JoinSource final : public NodeSource {
 public:
  explicit JoinSource(ClusterOptions& options)
      : file_(options.take("file")),
        expected_(options.count()),
        most_(std::max(expected_, options.max_nodes.value_or(0))),
        cpus_(options.take_number("cpus", 0)) {
    if (file_.empty() || options.address.empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "the cluster 'join' needs ;file=, where the driver writes what nodes need to "
                  "join, and ;address=, at which they reach this host");
    }
  }
  ~JoinSource() override {
    if (written_) ::unlink(file_.c_str());
  }

  size_t expected() const override { return expected_; }
  std::vector<std::string> some_hosts() const override { return {}; }

  // The file appears with all its content.
  void start(const AgentOrder& order, OnFailed) override {
    AgentOrder complete = order;
    complete.started_as = "join";
    std::string text = complete.text();
    std::string unfinished = str(file_, ".", ::getpid());
    UniqueFd file(
        ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) throw_errno(str("making the file '", unfinished, "'"));
    bool good = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (!good || ::rename(unfinished.c_str(), file_.c_str()) != 0) {
      int error = errno;
      ::unlink(unfinished.c_str());
      throw Error(ErrorKind::kIo, str("writing '", file_, "': ", errno_text(error)));
    }
    written_ = true;
  }
  std::map<std::string, size_t> possible(size_t there,
                                         const std::set<std::string>&) const override {
    if (there >= most_) return {};
    return {{"", most_ - there}};
  }
  // The user who starts agents may look at `manta status`.
  std::vector<std::string> bring(const std::string&, size_t) override { return {}; }
  void on_left(const std::string&) override {}
  void withdraw(const std::string&) override {}
  std::optional<Resources> shape() const override {
    if (cpus_ == 0) return std::nullopt;
    return Resources{.cpus = cpus_};
  }
  std::string said() const override { return ""; }
  void finish(Deadline) override {}

 private:
  const std::string file_;
  const size_t expected_;
  const size_t most_;
  const double cpus_;  // the CPUs that one more node would have
  bool written_ = false;
};

}  // namespace

std::unique_ptr<NodeSource> make_join_source(ClusterOptions& options) {
  return std::make_unique<JoinSource>(options);
}

}  // namespace manta
