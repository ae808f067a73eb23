// The only file that sees Gloo's headers, which are older than the library inside libtorch: nothing
// of Gloo may be instantiated or called here.
#include <signal.h>
#include <torch/types.h>

#include <optional>

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "manta/base/error_internal.h"
#include "manta/torch/gloo_group_internal.h"
#include "manta/torch/process_group_internal.h"

namespace manta::train {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Gloo reports errors only as text, and names peers by their addresses.
Error translate(const std::string& call, int rank, int size, const std::exception& error) {
  std::string what = error.what();
  auto kind = ErrorKind::kIo;
  if (contains(what, "imed out") || contains(what, "imeout")) {
    kind = ErrorKind::kTimeout;
  } else if (contains(what, "onnection closed") || contains(what, "onnection reset") ||
             contains(what, "roken pipe")) {
    kind = ErrorKind::kWorkerLost;
  }
  return Error(kind, str(call, " on rank ", rank, " of a Gloo group of ", size,
                         " ranks failed; a peer ended, stopped or made another call: ", what));
}

/// Gloo's work, with its errors as ours.
class GlooWork final : public c10d::Work {
 public:
  /// `watch` may be null: then waits are not noted.
  GlooWork(WorkPtr work, const char* call, int rank, int size, WaitWatch* watch, const Wait& wait)
      : Work(rank, work->retrieveOpType()),
        work_(std::move(work)),
        call_(call),
        size_(size),
        watch_(watch),
        wait_(wait) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return translated(work_->exception()); }
  int sourceRank() const override { return work_->sourceRank(); }
  Tensors result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }

  bool wait(std::chrono::milliseconds timeout) override {
    WaitWatch::Scope scope(watch_, wait_);
    try {
      return work_->wait(timeout);
    } catch (const std::exception& error) {
      throw translate(call_, rank_, size_, error);
    }
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    // A wait for a future cannot be noticed. Reducer waits at the end of backward, before the loop
    // can do anything else.
    if (watch_) watch_->enter(wait_);
    auto inner = work_->getFuture();
    auto outer = c10::make_intrusive<c10::ivalue::Future>(inner->elementType());
    auto self = c10::intrusive_ptr<GlooWork>::unsafe_reclaim_from_nonowning(this);
    inner->addCallback([outer, self](c10::ivalue::Future& done) {
      if (done.hasError()) {
        outer->setError(self->translated(done.exception_ptr()));
      } else {
        outer->markCompleted(done.value());
      }
    });
    return outer;
  }

 private:
  std::exception_ptr translated(const std::exception_ptr& error) const {
    if (!error) return error;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& caught) {
      return std::make_exception_ptr(translate(call_, rank_, size_, caught));
    }
  }

  WorkPtr work_;
  const char* call_;
  int size_;
  WaitWatch* watch_;
  Wait wait_;
};

/// Passes everything on to Gloo.
class GlooBackend final : public c10d::Backend, public TellsWhy {
 public:
  GlooBackend(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size, WaitWatch* watch)
      : Backend(rank, size),
        gloo_(std::move(gloo)),
        name_(gloo_->getBackendName()),
        watch_(watch) {}

  // Gloo cannot send a reason, and its abort() does not tell other ranks: they see that the
  // connections are closed. Waits for the calls that this rank has begun.
  void fail(ErrorKind kind, const std::string& why) override {
    if (!failure_) failure_.emplace(kind, why);
    gloo_.reset();
  }

  const std::string getBackendName() const override { return name_; }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo().setTimeout(timeout); }
  void setSequenceNumberForGroup() override { gloo().setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return gloo().getSequenceNumberForGroup(); }
  void abort() override { fail(ErrorKind::kCancelled, "the process group was aborted"); }
  void shutdown() override {
    if (gloo_) gloo_->shutdown();
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return call("broadcast", [&] { return gloo().broadcast(tensors, options); });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return call("allreduce", [&] { return gloo().allreduce(tensors, options); });
  }
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return call("allreduce_sparse", [&] { return gloo().allreduce_sparse(tensors, options); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return call("allreduce_coalesced",
                [&] { return gloo().allreduce_coalesced(tensors, options); });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return call("reduce", [&] { return gloo().reduce(tensors, options); });
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return call("allgather", [&] { return gloo().allgather(outputs, inputs, options); });
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return call("_allgather_base", [&] { return gloo()._allgather_base(output, input, options); });
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    return call("allgather_into_tensor_coalesced",
                [&] { return gloo().allgather_into_tensor_coalesced(outputs, inputs, options); });
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return call("gather", [&] { return gloo().gather(outputs, inputs, options); });
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return call("scatter", [&] { return gloo().scatter(outputs, inputs, options); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return call("reduce_scatter", [&] { return gloo().reduce_scatter(outputs, inputs, options); });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return call("_reduce_scatter_base",
                [&] { return gloo()._reduce_scatter_base(output, input, options); });
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    return call("reduce_scatter_tensor_coalesced",
                [&] { return gloo().reduce_scatter_tensor_coalesced(outputs, inputs, options); });
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    return call("alltoall_base", [&] {
      return gloo().alltoall_base(output, input, output_splits, input_splits, options);
    });
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    return call("alltoall", [&] { return gloo().alltoall(outputs, inputs, options); });
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    return call(
        "send", [&] { return gloo().send(tensors, to, tag); }, kOfTwo);
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    return call(
        "recv", [&] { return gloo().recv(tensors, from, tag); }, kOfTwo);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return call("barrier", [&] { return gloo().barrier(options); });
  }

 private:
  c10d::Backend& gloo() {
    if (failure_) throw *failure_;
    return *gloo_;
  }

  /// Whether all ranks make a call, or only two of them, without the others.
  enum Callers { kOfAll, kOfTwo };

  template <class Start>
  WorkPtr call(const char* name, Start start, Callers callers = kOfAll) {
    WaitWatch* watch = callers == kOfAll ? watch_ : nullptr;
    Wait wait;
    if (watch) wait = {Wait::kCollective, watch->begin_collective(), name, watch->step()};
    try {
      return c10::make_intrusive<GlooWork>(start(), name, rank_, size_, watch, wait);
    } catch (const Error&) {  // the error of `fail`
      throw;
    } catch (const std::exception& error) {
      throw translate(name, rank_, size_, error);
    }
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;  // null once it has failed
  const std::string name_;
  std::optional<Error> failure_;
  WaitWatch* watch_;
};

// Gloo writes to sockets whose other end may have died: without a handler, SIGPIPE would end this
// process, too. It sets a handler instead of SIG_IGN, which programs started from here would
// inherit.
void survive_broken_pipes() {
  struct sigaction current {};
  if (::sigaction(SIGPIPE, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &nothing, nullptr);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size, const GroupOptions& options,
                                                    const std::string& address,
                                                    Connecting connecting) {
  survive_broken_pipes();
  auto timeout = std::chrono::ceil<std::chrono::milliseconds>(options.timeout);
  Deadline deadline = Deadline::after(timeout);
  try {
    auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(
        address, /*lazyInit=*/connecting == Connecting::kWhenNeeded));
    gloo->threads = 1;  // calls of one group run in order, so that a second would sleep
    store->setTimeout(timeout);
    return c10::make_intrusive<GlooBackend>(
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, std::move(gloo)), rank, size,
        options.watch);
  } catch (const std::exception& error) {
    throw Error(deadline.passed() ? ErrorKind::kTimeout : ErrorKind::kIo,
                str("rank ", rank, " at ", address, " could not join a Gloo group of ", size,
                    " ranks within ", in_seconds(timeout),
                    ": some rank did not start, or cannot be reached from here: ", error.what()));
  }
}

}  // namespace manta::train
