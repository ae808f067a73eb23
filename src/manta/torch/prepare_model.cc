#include "manta/torch/prepare_model.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/torch/backend_choice_internal.h"
#include "manta/torch/gloo_group_internal.h"
#include "manta/torch/hosts_group_internal.h"
#include "manta/torch/nccl_group_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/session_store_internal.h"
#include "manta/torch/shm_group_internal.h"
#include "manta/torch/torch_worker_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

GroupPtr join_group(Session& session) {
  const auto& begin = session.begin();
  GroupOptions options;
  options.timeout = session.timeout();
  options.watch = &session.watch();
  WaitWatch::Scope scope(options.watch, "process group that forms (prepare_model)");
  auto store = make_session_store(session);
  UniqueFd region = session.take_region();
  BackendFacts facts = backend_facts();
  if (begin.framework.is_object()) facts.asked = begin.framework.value("backend", "auto");
  facts.one_node = begin.place.num_nodes == 1;
  facts.shared_memory = facts.one_node ? static_cast<bool>(region) : begin.place.shared_memory;
  BackendChoice choice = choose_backends(facts);
  if (choice.cpu != BackendChoice::kShm || choice.nccl) {
    // Gloo's and NCCL's errors are c10's: a rank that has gone or hangs shows as one of them.
    session.set_consequence_check([](const std::exception& error) {
      return dynamic_cast<const c10::DistError*>(&error) != nullptr ||
             std::string_view(error.what()).find("gloo") != std::string_view::npos;
    });
  }
  int rank = begin.rank, size = begin.world_size;
  BackendPtr on_cpu, on_cuda;
  switch (choice.cpu) {
    case BackendChoice::kShm:
      on_cpu = make_shm_backend(std::move(region), rank, size, options);
      break;
    case BackendChoice::kGloo:
      on_cpu = make_gloo_backend(store, rank, size, options, begin.place.address);
      break;
    case BackendChoice::kHosts:
      on_cpu = make_hosts_backend(store, std::move(region), rank, size, begin.place, options);
  }
  if (choice.nccl) {
    on_cuda = make_nccl_backend(c10::make_intrusive<c10d::PrefixStore>("nccl", store), rank, size,
                                options);
  }
  return make_process_group(store, on_cpu, rank, size, on_cuda);
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
