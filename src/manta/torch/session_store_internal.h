#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace manta::train {

class Session;

/// c10d's key-value store over the worker's own connection to the driver: it listens on no address.
c10::intrusive_ptr<c10d::Store> make_session_store(Session& session);

}  // namespace manta::train
