// Nodes that come by themselves: whoever has the file that the driver writes may join.

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

class JoinSource final : public NodeSource {
 public:
  explicit JoinSource(ClusterOptions& options) : file_(options.take("file")) {
    const std::string number = options.list.size() == 1 ? options.list[0] : "";
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), expected_);
    if (error != std::errc() || end != number.data() + number.size() || expected_ > 100'000) {
      throw Error(ErrorKind::kInvalidArgument,
                  "the cluster 'join' needs the number of nodes to wait for: write join:3");
    }
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
  std::string a_host() const override { return ""; }

  // It appears whole.
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
  void finish() override {}

 private:
  const std::string file_;
  size_t expected_ = 0;
  bool written_ = false;
};

}  // namespace

std::unique_ptr<NodeSource> make_join_source(ClusterOptions& options) {
  return std::make_unique<JoinSource>(options);
}

}  // namespace manta
