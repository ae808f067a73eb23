#pragma once

#include <string>

#include "manta/serve/deployment.h"
#include "manta/serve/options.h"
#include "manta/serve/status.h"

namespace manta::serve {

/// Begins to listen for HTTP. The front is a thread of this program; replicas are processes of its
/// run, and end with it. With `detached`, front and replicas live in a program of their own, which
/// goes on when this one ends; if one of that name runs already, this one joins it, and its HTTP
/// options stay as they are. Returns when the front listens.
///
/// Throws Error(kIo) if the port is in use; Error(kInvalidArgument) if the options are impossible
/// (such as an outside address without a token), if something else is being served by this program,
/// or if HTTP options are given that differ from those of the detached one that it would join.
void start(const StartOptions& options = {});

/// Serves until Ctrl-C or SIGTERM (or until `shutdown` is called by another thread), then answers
/// the requests that are there, ends the replicas and returns. A second Ctrl-C ends the program at
/// once. A detached front is left as it is.
void wait();

/// What is being served, with the state of each deployment.
Status status();

/// Takes a deployment away: new requests get status 404; those that are there are answered, for up
/// to its `graceful_shutdown_timeout`; then its replicas end, and this returns. Throws
/// Error(kNotFound) with the names that there are.
void remove(const std::string& name);

/// Removes every deployment, as `remove` does, and ends the front, also a detached one. Called at
/// normal exit for one that is not. Does nothing if nothing is served.
void shutdown();

}  // namespace manta::serve
