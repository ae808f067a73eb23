#pragma once

#include <memory>
#include <string>

#include "manta/serve/deploy_spec_internal.h"
#include "manta/serve/status.h"

namespace manta::serve {

/// A front, wherever it lives. Every call blocks until it is done, and throws its error.
class Control {
 public:
  virtual ~Control() = default;
  virtual void deploy(const DeploySpec& spec) = 0;
  virtual void remove(const std::string& name) = 0;
  virtual Status status() = 0;
  /// Answers the requests that are there, then ends the front.
  virtual void shutdown() = 0;
  virtual bool is_detached() const = 0;
};

/// A front in this process.
std::shared_ptr<Control> start_here(const HttpOptions& options);
/// The detached front of that name; starts it if there is none.
std::shared_ptr<Control> start_detached(const StartOptions& options);

/// The front of this process. Throws Error(kInvalidArgument) naming `api` if there is none.
std::shared_ptr<Control> current_control(const char* api);

}  // namespace manta::serve
