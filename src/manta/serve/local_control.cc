#include <future>

#include "manta/base/error_internal.h"
#include "manta/serve/control_internal.h"
#include "manta/serve/front_internal.h"

namespace manta::serve {
namespace {

// The front keeps its own deadlines; this one is for a front that does not.
constexpr std::chrono::minutes kFrontDeadline{30};

class LocalControl final : public Control {
 public:
  explicit LocalControl(const HttpOptions& options) : front_(options) {}

  void deploy(const DeploySpec& spec) override {
    run([&](Done done) { front_.deploy(spec, std::move(done)); });
  }
  void remove(const std::string& name) override {
    run([&](Done done) { front_.remove(name, std::move(done)); });
  }
  Status status() override {
    std::lock_guard lock(front_.loop().mutex);
    return front_.status();
  }
  void shutdown() override {
    run([&](Done done) { front_.drain(std::move(done)); });
    front_.stop();
  }
  bool is_detached() const override { return false; }

 private:
  template <class Begin>
  void run(Begin begin) {
    auto ended = std::make_shared<std::promise<std::optional<Error>>>();
    auto future = ended->get_future();
    {
      std::lock_guard lock(front_.loop().mutex);
      begin([ended](const std::optional<Error>& error) { ended->set_value(error); });
    }
    if (future.wait_for(kFrontDeadline) != std::future_status::ready) {
      throw Error(ErrorKind::kTimeout, "serve: the front did not answer");
    }
    if (auto error = future.get()) throw *error;
  }

  Front front_;
};

}  // namespace

std::shared_ptr<Control> start_here(const HttpOptions& options) {
  return std::make_shared<LocalControl>(options);
}

}  // namespace manta::serve
