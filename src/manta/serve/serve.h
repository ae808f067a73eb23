#pragma once

#include <string>

#include "manta/serve/deployment.h"
#include "manta/serve/options.h"
#include "manta/serve/status.h"

namespace manta::serve {

/// Begins to listen for HTTP. The front is a thread of this program; replicas are processes of its
/// run, and end with it. With `detached`, front and replicas live in a program of their own, which
/// goes on when this one ends. If a detached program of that name runs already, this one joins it,
/// and the HTTP options of the detached one stay as they are. Returns when the front listens.
///
/// Throws Error(kIo) if the port is in use; Error(kInvalidArgument) if the options are impossible
/// (such as an outside address without a token), if this program already serves something else, or
/// if the given HTTP options differ from those of the detached program that it would join.
void start(const StartOptions& options = {});

/// Serves until Ctrl-C or SIGTERM (or until `shutdown` is called by another thread), then answers
/// the requests that it has, ends the replicas and returns. A second Ctrl-C ends the program at
/// once. A detached front goes on.
void wait();

/// What is being served, with the state of each deployment.
Status status();

/// Removes a deployment. New requests get status 404. Requests that it already has are answered,
/// for up to its `graceful_shutdown_timeout`. Then its replicas end, and this returns. Throws
/// Error(kNotFound) with the existing names.
void remove(const std::string& name);

/// Removes every deployment, as `remove` does, and ends the front, even a detached one. At normal
/// exit it is called for a front that is not detached. Does nothing if nothing is served.
void shutdown();

}  // namespace manta::serve
