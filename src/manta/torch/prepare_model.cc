#include "manta/torch/prepare_model.h"

#include <atomic>
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

constexpr const char* kGroupOfRun = "torch process group";

// The group for the loop's own exchanges: a loss, or everything that prepare_model would do.
class LoopsGroup final : public c10d::ProcessGroup {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  explicit LoopsGroup(c10d::ProcessGroup& like)
      : ProcessGroup(like.getStore(), like.getRank(), like.getSize()) {
    copy_backends(like, *this);
  }
  int64_t largest() const { return largest_; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    note(tensors);
    return ProcessGroup::broadcast(tensors, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    note(tensors);
    return ProcessGroup::allreduce(tensors, options);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    note(tensors);
    return ProcessGroup::allreduce_coalesced(tensors, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    note(tensors);
    return ProcessGroup::reduce(tensors, options);
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    note(inputs);
    return ProcessGroup::allgather(outputs, inputs, options);
  }
  WorkPtr all_gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& options) override {
    note({input});
    return ProcessGroup::all_gather_single(output, input, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    for (const Tensors& tensors : inputs) note(tensors);
    return ProcessGroup::reduce_scatter(outputs, inputs, options);
  }
  WorkPtr reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override {
    note({input});
    return ProcessGroup::reduce_scatter_single(output, input, options);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    note(tensors);
    return ProcessGroup::send(tensors, to, tag);
  }

 private:
  void note(const Tensors& tensors) {
    int64_t numbers = 0;
    for (const at::Tensor& tensor : tensors) numbers += tensor.numel();
    if (numbers > largest_) largest_ = numbers;
  }

  std::atomic<int64_t> largest_{0};
};

struct RunGroup {
  GroupPtr own;  // used by the code that keeps models equal
  c10::intrusive_ptr<LoopsGroup> for_loop;
};

// The first call joins it. Null if there is one worker.
RunGroup* group_of_run() {
  Session* session = Session::current_or_null();
  if (!session || session->begin().world_size == 1) return nullptr;
  auto& attached = session->attachment(kGroupOfRun);
  if (!attached) {
    GroupPtr own = join_group(*session);
    auto for_loop = c10::make_intrusive<LoopsGroup>(*own);
    attached = std::make_shared<RunGroup>(RunGroup{std::move(own), std::move(for_loop)});
  }
  return static_cast<RunGroup*>(attached.get());
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> get_process_group() {
  RunGroup* group = group_of_run();
  return group ? GroupPtr(group->for_loop) : GroupPtr();
}

int64_t largest_exchange_by_hand() {
  Session* session = Session::current_or_null();
  if (!session || !session->attachment(kGroupOfRun)) return 0;
  return group_of_run()->for_loop->largest();
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
  if (RunGroup* group = group_of_run()) options.group = group->own;
  options.weight = [session] {
    return gradient_weight(session->current_step(), session->begin().world_size);
  };
  options.step = [session] { return session->step(); };
  options.exchanging = [session](bool begins) {
    session->watch().set_step(begins ? session->step() : -1);
  };
  return options;
}

}  // namespace detail
}  // namespace manta::train
