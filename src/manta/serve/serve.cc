#include "manta/serve/serve.h"

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "manta/base/error_internal.h"
#include "manta/base/interrupts_internal.h"
#include "manta/io/remote_files_internal.h"
#include "manta/serve/control_internal.h"
#include "manta/serve/replica_frames_internal.h"

namespace manta::serve {
namespace {

struct Current {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Control> control;
};
Current& current() {
  static auto* current = new Current;  // used until the very end of the process
  return *current;
}

void end_at_exit() {
  try {
    auto& here = current();
    std::unique_lock lock(here.mutex);
    bool ours = here.control && !here.control->is_detached();
    lock.unlock();
    if (ours) shutdown();
  } catch (const std::exception&) {  // the program ends anyway
  }
}

}  // namespace

std::shared_ptr<Control> current_control(const char* api) {
  std::lock_guard lock(current().mutex);
  if (!current().control) {
    throw Error(ErrorKind::kInvalidArgument,
                str(api, ": nothing is served; call serve::start first"));
  }
  return current().control;
}

void start(const StartOptions& options) {
  std::lock_guard lock(current().mutex);
  if (current().control) {
    throw Error(ErrorKind::kInvalidArgument,
                "serve::start was called before; call serve::shutdown between two starts");
  }
  current().control = options.detached ? start_detached(options) : start_here(options.http);
  static const int registered =
      std::atexit(end_at_exit);  // before manta::shutdown, which init registered
  (void)registered;
}

void wait() {
  auto control = current_control("serve::wait");
  {
    std::unique_lock lock(current().mutex);
    bool interrupted = false;
    lock.unlock();
    InterruptListener listener([&] {
      std::lock_guard inner(current().mutex);
      interrupted = true;
      current().changed.notify_all();
    });
    lock.lock();
    current().changed.wait(lock, [&] { return interrupted || current().control != control; });
    lock.unlock();  // before the listener goes: it may be calling us at this moment
    if (!control->is_detached()) shutdown();
  }
}

Status status() { return current_control("serve::status")->status(); }

void remove(const std::string& name) { current_control("serve::remove")->remove(name); }

void shutdown() {
  std::shared_ptr<Control> control;
  {
    std::lock_guard lock(current().mutex);
    control = std::exchange(current().control, nullptr);
    current().changed.notify_all();
  }
  if (control) control->shutdown();
}

PredictorDeployment::PredictorDeployment(DeploymentOptions options) : options_(std::move(options)) {
  check_deployment(options_);
}

void PredictorDeployment::deploy(const PredictorFactory& factory, const Checkpoint& checkpoint,
                                 const DeployOptions& options) const {
  auto control = current_control("PredictorDeployment::deploy");
  if (!checkpoint) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("deploying '", options_.name, "': there is no checkpoint: did the run report one?"));
  }
  DeploySpec spec;
  spec.options = options_;
  spec.factory = factory;
  spec.checkpoint = checkpoint.uri();
  if (!remote_address(spec.checkpoint))
    spec.checkpoint = std::filesystem::absolute(spec.checkpoint).string();
  spec.adapter = locate_adapter(options.http_adapter);
  control->deploy(spec);
}

std::string PredictorDeployment::url() const {
  auto status = current_control("PredictorDeployment::url")->status();
  for (const auto& deployment : status.deployments) {
    if (deployment.name == options_.name) return deployment.url;
  }
  throw Error(ErrorKind::kNotFound,
              str("serve: '", options_.name, "' is not deployed; call deploy first"));
}

}  // namespace manta::serve
