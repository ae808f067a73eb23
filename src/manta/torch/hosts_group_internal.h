#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "manta/io/collectives_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/messages_internal.h"

namespace manta::train {

/// A c10d backend for ranks on several hosts. An allreduce goes through shared memory within each
/// host. Between the first ranks of the hosts, it goes over HostLinks (encrypted) up to
/// kMostLinkBytes, and over Gloo above. Broadcast and barrier do the same. The other calls use a
/// Gloo group of all ranks, whose connections are made when they are first needed.
///
/// Before a call over Gloo, the hosts compare their calls over the links. A host that fails tells
/// the others why, so that they need not wait for it.
///
/// A sum is added host by host: its last bits may differ from those of the same ranks on one host.
/// They are the same on all ranks.
///
/// `place` says where this rank is; `region` is its host's, from create_shm_region, and empty if
/// the host has one rank. Blocks until all ranks have joined. Data over Gloo is not encrypted.
inline constexpr size_t kMostLinkBytes = 64 * 1024;
c10::intrusive_ptr<c10d::Backend> make_hosts_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                     UniqueFd region, int rank, int size,
                                                     const Place& place,
                                                     const GroupOptions& options);

}  // namespace manta::train
