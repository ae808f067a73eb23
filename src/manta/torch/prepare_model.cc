#include "manta/torch/prepare_model.h"

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/torch/gloo_group_internal.h"
#include "manta/torch/hosts_group_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/session_store_internal.h"
#include "manta/torch/shm_group_internal.h"
#include "manta/torch/torch_worker_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

GroupPtr join_group(Session& session) {
  const auto& begin = session.begin();
  GroupOptions options;
  options.timeout = session.timeout();
  options.watch = &session.watch();
  WaitWatch::Scope scope(options.watch, "process group that forms (prepare_model)");
  auto store = make_session_store(session);
  UniqueFd region = session.take_region();
  bool one_host = begin.place.num_nodes == 1;
  if (one_host && region) {
    return make_process_group(
        store, make_shm_backend(std::move(region), begin.rank, begin.world_size, options),
        begin.rank, begin.world_size);
  }
  // Gloo's errors are c10's: a rank that has gone or hangs shows as one of them.
  session.set_consequence_check([](const std::exception& error) {
    return dynamic_cast<const c10::DistError*>(&error) != nullptr ||
           std::string_view(error.what()).find("gloo") != std::string_view::npos;
  });
  auto backend =
      one_host || !begin.place.shared_memory
          ? make_gloo_backend(store, begin.rank, begin.world_size, options, begin.place.address)
          : make_hosts_backend(store, std::move(region), begin.rank, begin.world_size, begin.place,
                               options);
  return make_process_group(store, backend, begin.rank, begin.world_size);
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> get_process_group() {
  Session* session = Session::current_or_null();
  if (!session || session->begin().world_size == 1) return {};
  auto& group = session->attachment("torch process group");
  if (!group) group = std::make_shared<GroupPtr>(join_group(*session));
  return *std::static_pointer_cast<GroupPtr>(group);
}

namespace detail {

SyncOptions sync_options_of_run(const PrepareModelOptions& model) {
  if (model.bucket_bytes == 0) {
    throw Error(ErrorKind::kInvalidArgument,
                "prepare_model: bucket_bytes must be positive (was 0); leave it out for 25 MiB");
  }
  SyncOptions options;
  options.model = model;
  Session* session = Session::current_or_null();
  if (!session) return options;
  options.rank = session->begin().rank;
  options.world_size = session->begin().world_size;
  options.group = get_process_group();
  options.weight = [session] {
    return gradient_weight(session->current_step(), session->begin().world_size);
  };
  options.exchanging = [session](bool begins) {
    session->watch().set_step(begins ? session->step() : -1);
  };
  return options;
}

}  // namespace detail
}  // namespace manta::train
