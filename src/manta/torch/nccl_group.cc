// The only file that sees the headers of CUDA and NCCL; CMake defines USE_C10D_NCCL if they are
// there.
#include "manta/torch/nccl_group_internal.h"

#ifdef USE_C10D_NCCL
#include <torch/csrc/autograd/graph_task.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "manta/base/error_internal.h"

namespace manta::train {

#ifdef USE_C10D_NCCL

namespace {

/// Notes which collective the loop has begun last. The thread does not wait in the collective, but
/// where its result is needed. If a peer never comes, this collective is what the thread waits for.
class WatchedNccl final : public c10d::ProcessGroupNCCL {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  WatchedNccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              c10::intrusive_ptr<Options> options, WaitWatch* watch)
      : ProcessGroupNCCL(store, rank, size, std::move(options)), watch_(watch) {}

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    begin("broadcast");
    return ProcessGroupNCCL::broadcast(tensors, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    begin("allreduce");
    return ProcessGroupNCCL::allreduce(tensors, options);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    begin("allreduce_coalesced");
    return ProcessGroupNCCL::allreduce_coalesced(tensors, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    begin("reduce");
    return ProcessGroupNCCL::reduce(tensors, options);
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    begin("allgather");
    return ProcessGroupNCCL::allgather(outputs, inputs, options);
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    begin("_allgather_base");
    return ProcessGroupNCCL::_allgather_base(output, input, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    begin("reduce_scatter");
    return ProcessGroupNCCL::reduce_scatter(outputs, inputs, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    begin("_reduce_scatter_base");
    return ProcessGroupNCCL::_reduce_scatter_base(output, input, options);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    begin("alltoall");
    return ProcessGroupNCCL::alltoall(outputs, inputs, options);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    begin("barrier");
    return ProcessGroupNCCL::barrier(options);
  }

 private:
  // In backward, autograd's thread begins collectives; the watch would take it for a thread that is
  // not the loop's. Whichever thread begins them, they are the same on every rank.
  void begin(const char* name) {
    if (!watch_ || torch::autograd::get_current_graph_task_id() != -1) return;
    watch_->enter({Wait::kCollective, watch_->begin_collective(), name, watch_->step()});
  }

  WaitWatch* watch_;
};

}  // namespace

bool has_nccl() { return true; }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GroupOptions& options) {
  auto timeout = std::chrono::ceil<std::chrono::milliseconds>(options.timeout);
  try {
    store->setTimeout(timeout);
    auto nccl = c10d::ProcessGroupNCCL::Options::create();
    nccl->timeout = timeout;
    return c10::make_intrusive<WatchedNccl>(store, rank, size, std::move(nccl), options.watch);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kIo, str("rank ", rank, " could not join an NCCL group of ", size,
                                    " ranks: ", error.what()));
  }
}

#else

bool has_nccl() { return false; }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&,
                                                    int rank, int size, const GroupOptions&) {
  throw Error(ErrorKind::kInvalidArgument,
              str("rank ", rank, " of ", size, " wants NCCL, which this libtorch does not have"));
}

#endif

}  // namespace manta::train
