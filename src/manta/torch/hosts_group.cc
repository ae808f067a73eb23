#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "manta/base/error_internal.h"
#include "manta/io/host_links_internal.h"
#include "manta/torch/completed_work_internal.h"
#include "manta/torch/gloo_group_internal.h"
#include "manta/torch/hosts_group_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/shm_group_internal.h"

namespace manta::train {
namespace {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using HostsWork = c10::intrusive_ptr<c10d::Work>;
using HostsTensors = std::vector<at::Tensor>;

class HostsBackend final : public c10d::Backend, public TellsWhy {
 public:
  HostsBackend(const c10::intrusive_ptr<c10d::Store>& store, UniqueFd region, int rank, int size,
               const Place& place, const GroupOptions& options)
      : Backend(rank, size), store_(store), place_(place), options_(options) {
    // Only calls of this class count as collectives: hosts with one rank make no calls within the
    // host.
    GroupOptions inner = options;
    inner.watch = nullptr;
    inner.steps = options.watch;
    if (place.local_size > 1)
      local_ = make_shm_backend(std::move(region), place.local_rank, place.local_size, inner);
    if (place.local_rank == 0) {
      between_hosts([&] { links_ = make_links(); });
      leaders_ = make_gloo_backend(c10::make_intrusive<c10d::PrefixStore>("leaders", store),
                                   place.node_rank, place.num_nodes, inner, place.address,
                                   Connecting::kWhenNeeded);
    }
    between_hosts([&] { leaders_->barrier(c10d::BarrierOptions())->wait(); });
    if (local_) local_->barrier(c10d::BarrierOptions());
  }

  const std::string getBackendName() const override { return "manta_hosts"; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return calls_; }
  void abort() override { fail(ErrorKind::kCancelled, "the process group was aborted"); }
  void fail(ErrorKind kind, const std::string& why) override {
    if (local_) fail_backend(*local_, kind, why);
    if (links_) links_->fail(kind, why);
    for (const BackendPtr& gloo : {leaders_, flat_})
      if (gloo) fail_backend(*gloo, kind, why);
  }

  HostsWork allreduce(HostsTensors& tensors, const c10d::AllreduceOptions& options) override {
    WaitWatch::Scope scope(options_.watch, "allreduce");
    for (at::Tensor& tensor : tensors) allreduce_one(tensor, options.reduceOp);
    return done(c10d::OpType::ALLREDUCE, tensors);
  }

  HostsWork allreduce_coalesced(HostsTensors& tensors,
                                const c10d::AllreduceCoalescedOptions& options) override {
    WaitWatch::Scope scope(options_.watch, "allreduce_coalesced");
    for (at::Tensor& tensor : tensors) allreduce_one(tensor, options.reduceOp);
    return done(c10d::OpType::ALLREDUCE_COALESCED, tensors);
  }

  HostsWork broadcast(HostsTensors& tensors, const c10d::BroadcastOptions& options) override {
    WaitWatch::Scope scope(options_.watch, "broadcast");
    auto root = static_cast<size_t>(options.rootRank);
    if (options.rootRank < 0 || options.rootRank >= size_) {
      throw Error(
          ErrorKind::kInvalidArgument,
          str("root rank ", options.rootRank, " of a group of ", size_, " ranks, counted from 0"));
    }
    int32_t node = place_.node_ranks.at(root);
    c10d::BroadcastOptions within;
    if (node == place_.node_rank) {  // so that the first rank of its host has the data
      within.rootRank =
          std::count(place_.node_ranks.begin(), place_.node_ranks.begin() + options.rootRank, node);
      within_host([&] { local_->broadcast(tensors, within); });
    }
    for (at::Tensor& tensor : tensors) {
      on_dense(tensor, [&](HostsTensors& dense) {
        Elements elements = elements_of(dense[0]);
        if (elements.bytes() <= kMostLinkBytes) {
          return links_->broadcast(dense[0].data_ptr(), elements, node);
        }
        links_->meet({.bytes = elements.bytes(),
                      .root = static_cast<int16_t>(node),
                      .kind = CollectiveKind::kBroadcast,
                      .type = elements.type});
        c10d::BroadcastOptions between;
        between.rootRank = node;
        leaders_->broadcast(dense, between)->wait();
      });
    }
    within.rootRank = 0;
    if (node != place_.node_rank) within_host([&] { local_->broadcast(tensors, within); });
    return done(c10d::OpType::BROADCAST, tensors);
  }

  HostsWork barrier(const c10d::BarrierOptions& options) override {
    WaitWatch::Scope scope(options_.watch, "barrier");
    within_host([&] { local_->barrier(options); });
    between_hosts([&] { links_->meet({.kind = CollectiveKind::kBarrier}); });
    within_host([&] { local_->barrier(options); });
    return done(c10d::OpType::BARRIER, {});
  }

  HostsWork reduce(HostsTensors& tensors, const c10d::ReduceOptions& options) override {
    return flat().reduce(tensors, options);
  }
  HostsWork allreduce_sparse(HostsTensors& tensors,
                             const c10d::AllreduceOptions& options) override {
    return flat().allreduce_sparse(tensors, options);
  }
  HostsWork allgather(std::vector<HostsTensors>& outputs, HostsTensors& inputs,
                      const c10d::AllgatherOptions& options) override {
    return flat().allgather(outputs, inputs, options);
  }
  HostsWork _allgather_base(at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& options) override {
    return flat()._allgather_base(output, input, options);
  }
  HostsWork allgather_into_tensor_coalesced(HostsTensors& outputs, HostsTensors& inputs,
                                            const c10d::AllgatherOptions& options) override {
    return flat().allgather_into_tensor_coalesced(outputs, inputs, options);
  }
  HostsWork gather(std::vector<HostsTensors>& outputs, HostsTensors& inputs,
                   const c10d::GatherOptions& options) override {
    return flat().gather(outputs, inputs, options);
  }
  HostsWork scatter(HostsTensors& outputs, std::vector<HostsTensors>& inputs,
                    const c10d::ScatterOptions& options) override {
    return flat().scatter(outputs, inputs, options);
  }
  HostsWork reduce_scatter(HostsTensors& outputs, std::vector<HostsTensors>& inputs,
                           const c10d::ReduceScatterOptions& options) override {
    return flat().reduce_scatter(outputs, inputs, options);
  }
  HostsWork _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                 const c10d::ReduceScatterOptions& options) override {
    return flat()._reduce_scatter_base(output, input, options);
  }
  HostsWork reduce_scatter_tensor_coalesced(HostsTensors& outputs, HostsTensors& inputs,
                                            const c10d::ReduceScatterOptions& options) override {
    return flat().reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  HostsWork alltoall_base(at::Tensor& output, at::Tensor& input,
                          std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                          const c10d::AllToAllOptions& options) override {
    return flat().alltoall_base(output, input, output_splits, input_splits, options);
  }
  HostsWork alltoall(HostsTensors& outputs, HostsTensors& inputs,
                     const c10d::AllToAllOptions& options) override {
    return flat().alltoall(outputs, inputs, options);
  }
  HostsWork send(HostsTensors& tensors, int to, int tag) override {
    return flat().send(tensors, to, tag);
  }
  HostsWork recv(HostsTensors& tensors, int from, int tag) override {
    return flat().recv(tensors, from, tag);
  }

 private:
  void allreduce_one(at::Tensor& tensor, const c10d::ReduceOp& op) {
    bool averages = op.op_ == c10d::ReduceOp::AVG;  // Gloo does not know averages
    c10d::ReduceOp sum = averages ? c10d::ReduceOp(c10d::ReduceOp::SUM) : op;
    check_reduces(tensor, sum);
    HostsTensors one = {tensor};
    c10d::ReduceOptions within;
    within.reduceOp = sum;
    within_host([&] { local_->reduce(one, within); });
    on_dense(tensor, [&](HostsTensors& dense) {
      reduce_between_hosts(dense, sum);
      if (!averages) return;
      if (at::isIntegralType(dense[0].scalar_type(), /*includeBool=*/true)) {
        dense[0].div_(size_, "trunc");
      } else {
        dense[0].div_(size_);
      }
    });
    within_host([&] { local_->broadcast(one, c10d::BroadcastOptions()); });
  }

  // Call it before anything is sent.
  static void check_reduces(const at::Tensor& tensor, const c10d::ReduceOp& op) {
    ElementType type = element_type(tensor.scalar_type());
    ReduceKind kind = reduce_kind(op);
    if (find_reduce(type, kind)) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("the ", reduce_name(kind), " over ranks is not defined for elements of ",
                    element_name(type)));
  }

  void reduce_between_hosts(HostsTensors& dense, const c10d::ReduceOp& op) {
    Elements elements = elements_of(dense[0]);
    ReduceKind kind = reduce_kind(op);
    bool gloo_adds = elements.type != ElementType::kInt16 && elements.type != ElementType::kBool;
    if (elements.bytes() <= kMostLinkBytes || !gloo_adds) {
      return links_->allreduce(dense[0].data_ptr(), elements, kind);
    }
    links_->meet({.bytes = elements.bytes(),
                  .kind = CollectiveKind::kAllreduce,
                  .type = elements.type,
                  .reduce = kind});
    c10d::AllreduceOptions between;
    between.reduceOp = op;
    leaders_->allreduce(dense, between)->wait();
  }

  // Runs the first rank's part on a dense tensor, as Gloo requires.
  void on_dense(at::Tensor& tensor, const std::function<void(HostsTensors&)>& part) {
    between_hosts([&] {
      at::NoGradGuard no_grad;
      HostsTensors dense = {tensor.contiguous()};
      part(dense);
      if (!dense[0].is_same(tensor)) tensor.copy_(dense[0]);
    });
  }

  // Runs the part that a host's first rank does for all ranks of the host. If it fails, those ranks
  // and the other hosts are told.
  void between_hosts(const std::function<void()>& part) {
    if (place_.local_rank != 0) return;
    try {
      part();
    } catch (const Error& error) {
      if (local_) fail_backend(*local_, error.kind(), error.what());
      if (links_) links_->fail(error.kind(), error.what());
      throw;
    }
  }

  // Runs the part that the ranks of a host do together, if there are several. If it fails, the
  // other hosts are told.
  void within_host(const std::function<void()>& part) {
    if (!local_) return;
    try {
      part();
    } catch (const Error& error) {
      if (links_) links_->fail(error.kind(), error.what());
      throw;
    }
  }

  std::unique_ptr<HostLinks> make_links() {
    Deadline deadline = Deadline::after(options_.timeout);
    auto store = c10::make_intrusive<c10d::PrefixStore>("links", store_);
    store->setTimeout(std::chrono::ceil<std::chrono::milliseconds>(options_.timeout));
    auto ask = [&](const std::string& key, const auto& action) {
      try {
        return action();
      } catch (const std::exception& error) {
        throw Error(deadline.passed() ? ErrorKind::kTimeout : ErrorKind::kIo,
                    str("rank ", rank_, " at ", place_.address, " did not learn '", key,
                        "' of the other hosts: some rank did not start: ", error.what()));
      }
    };
    LinkMeeting meeting{.set =
                            [&](const std::string& key, const std::string& value) {
                              ask(key, [&] {
                                store->set(key, std::vector<uint8_t>(value.begin(), value.end()));
                                return 0;
                              });
                            },
                        .get =
                            [&](const std::string& key) {
                              return ask(key, [&] {
                                auto value = store->get(key);
                                return std::string(value.begin(), value.end());
                              });
                            }};
    HostLinksOptions options{.timeout = options_.timeout, .steps = options_.watch};
    for (int32_t node = 0; node < place_.num_nodes; ++node) {
      auto first = std::find(place_.node_ranks.begin(), place_.node_ranks.end(), node);
      options.names.push_back(str("rank ", first - place_.node_ranks.begin()));
    }
    return std::make_unique<HostLinks>(place_.node_rank, place_.num_nodes, place_.address, meeting,
                                       options);
  }

  // All ranks make this group at the same call.
  c10d::Backend& flat() {
    if (!flat_) {
      flat_ = make_gloo_backend(c10::make_intrusive<c10d::PrefixStore>("all", store_), rank_, size_,
                                options_, place_.address, Connecting::kWhenNeeded);
    }
    ++calls_;
    return *flat_;
  }

  HostsWork done(c10d::OpType type, HostsTensors tensors) {
    ++calls_;
    return c10::make_intrusive<CompletedWork>(rank_, type, std::move(tensors));
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const Place place_;
  const GroupOptions options_;
  BackendPtr local_;                  // null: no other rank on this host
  std::unique_ptr<HostLinks> links_;  // null: another rank of this host has the links
  BackendPtr leaders_;                // for large data; null in the same case
  BackendPtr flat_;
  uint64_t calls_ = 0;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_hosts_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                     UniqueFd region, int rank, int size,
                                                     const Place& place,
                                                     const GroupOptions& options) {
  return c10::make_intrusive<HostsBackend>(store, std::move(region), rank, size, place, options);
}

}  // namespace manta::train
