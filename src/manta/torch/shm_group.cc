#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/completed_work_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/shm_group_internal.h"

namespace manta::train {

ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ElementType::kFloat32;
    case at::kDouble:
      return ElementType::kFloat64;
    case at::kHalf:
      return ElementType::kFloat16;
    case at::kBFloat16:
      return ElementType::kBFloat16;
    case at::kChar:
      return ElementType::kInt8;
    case at::kByte:
      return ElementType::kUInt8;
    case at::kShort:
      return ElementType::kInt16;
    case at::kInt:
      return ElementType::kInt32;
    case at::kLong:
      return ElementType::kInt64;
    case at::kBool:
      return ElementType::kBool;
    case at::kComplexFloat:
      return ElementType::kComplex64;
    case at::kComplexDouble:
      return ElementType::kComplex128;
    default:
      return ElementType::kOther;
  }
}

ReduceKind reduce_kind(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceKind::kSum;
    case c10d::ReduceOp::AVG:
      return ReduceKind::kAverage;
    case c10d::ReduceOp::PRODUCT:
      return ReduceKind::kProduct;
    case c10d::ReduceOp::MIN:
      return ReduceKind::kMin;
    case c10d::ReduceOp::MAX:
      return ReduceKind::kMax;
    case c10d::ReduceOp::BAND:
      return ReduceKind::kBitAnd;
    case c10d::ReduceOp::BOR:
      return ReduceKind::kBitOr;
    case c10d::ReduceOp::BXOR:
      return ReduceKind::kBitXor;
    default:
      throw Error(ErrorKind::kInvalidArgument,
                  str("reduce operation number ", static_cast<int>(op.op_),
                      " is not supported between workers of one host: use SUM, AVG, PRODUCT, MIN, ",
                      "MAX, BAND, BOR or BXOR"));
  }
}

Elements elements_of(const at::Tensor& tensor) {
  return {element_type(tensor.scalar_type()), static_cast<size_t>(tensor.element_size()),
          static_cast<size_t>(tensor.numel())};
}

namespace {

using c10d::Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<at::Tensor>;

void check_tensor(const char* call, const at::Tensor& tensor) {
  if (tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(call, " between workers of one host takes dense CPU tensors, but got ",
                  tensor.defined() ? tensor.toString() : "an undefined tensor"));
}

at::Tensor& only(const char* call, Tensors& tensors) {
  if (tensors.size() == 1) return tensors[0];
  throw Error(ErrorKind::kInvalidArgument,
              str(call, " takes one tensor at a time, but got ", tensors.size()));
}

void check_alike(const char* call, const at::Tensor& one, const at::Tensor& other) {
  if (one.scalar_type() == other.scalar_type() && one.numel() == other.numel()) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(call, " needs inputs and outputs of one type and size, but got ", one.numel(),
                  " of ", one.toString(), " and ", other.numel(), " of ", other.toString()));
}

/// A tensor's data as one run of bytes; for a tensor that is not contiguous, a copy, which `finish`
/// writes back.
class Dense {
 public:
  Dense(const char* call, const at::Tensor& tensor) : tensor_(tensor) {
    check_tensor(call, tensor);
    dense_ = tensor.contiguous();
  }
  void* data() const { return dense_.data_ptr(); }
  const at::Tensor& tensor() const { return dense_; }
  void finish() const {
    if (dense_.is_same(tensor_)) return;
    at::NoGradGuard no_grad;
    tensor_.copy_(dense_);
  }

 private:
  at::Tensor tensor_;
  at::Tensor dense_;
};

class DenseList {
 public:
  DenseList(const char* call, const Tensors& tensors) {
    for (auto& tensor : tensors) {
      items_.emplace_back(call, tensor);
      data_.push_back(items_.back().data());
    }
  }
  std::span<void* const> outputs() const { return data_; }
  std::span<const void* const> inputs() const {
    return {const_cast<const void* const*>(data_.data()), data_.size()};
  }
  void finish() const {
    for (auto& item : items_) item.finish();
  }

 private:
  std::vector<Dense> items_;
  std::vector<void*> data_;
};

/// A buffer of one part per rank.
std::vector<void*> parts_of(const char* call, void* buffer, size_t buffer_elements,
                            const Elements& part, int size) {
  auto ranks = static_cast<size_t>(size);
  if (buffer_elements != ranks * part.count) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str(call, " between ", size, " ranks with parts of ", part.count,
            " elements needs a buffer of ", ranks * part.count, ", but got ", buffer_elements));
  }
  std::vector<void*> parts(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    parts[r] = static_cast<std::byte*>(buffer) + r * part.bytes();
  }
  return parts;
}

class ShmBackend final : public c10d::Backend, public TellsWhy {
 public:
  ShmBackend(UniqueFd region, int rank, int size, const GroupOptions& options)
      : Backend(rank, size), group_(std::move(region), rank, size, options) {}

  const std::string getBackendName() const override { return kShmBackend; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return group_.calls(); }
  void abort() override { group_.abort("the process group was aborted"); }
  void fail(ErrorKind kind, const std::string& why) override { group_.fail(kind, why); }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    group_.barrier(timeout(options.timeout));
    return done(c10d::OpType::BARRIER, {});
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    Dense dense("broadcast", only("broadcast", tensors));
    group_.broadcast(dense.data(), elements_of(dense.tensor()), root(options.rootRank),
                     timeout(options.timeout));
    dense.finish();
    return done(c10d::OpType::BROADCAST, tensors);
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    allreduce_one(only("allreduce", tensors), options);
    return done(c10d::OpType::ALLREDUCE, tensors);
  }

  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    bool one_type = std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
      check_tensor("allreduce_coalesced", tensor);
      return tensor.scalar_type() == tensors[0].scalar_type();
    });
    if (one_type && tensors.size() > 1) {
      at::NoGradGuard no_grad;
      Tensors flat;
      for (auto& tensor : tensors) flat.push_back(tensor.reshape(-1));
      auto all = at::cat(flat);
      allreduce_one(all, options);
      int64_t begin = 0;
      for (auto& tensor : tensors) {
        tensor.copy_(all.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
        begin += tensor.numel();
      }
    } else {
      for (auto& tensor : tensors) allreduce_one(tensor, options);
    }
    return done(c10d::OpType::ALLREDUCE_COALESCED, tensors);
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Dense dense("reduce", only("reduce", tensors));
    group_.reduce(dense.data(), elements_of(dense.tensor()), reduce_kind(options.reduceOp),
                  root(options.rootRank), timeout(options.timeout));
    if (rank_ == options.rootRank) dense.finish();
    return done(c10d::OpType::REDUCE, tensors);
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    Dense input("allgather", only("allgather", inputs));
    auto& list = one_per_rank("allgather", outputs, input.tensor());
    DenseList dense("allgather", list);
    group_.allgather(dense.outputs(), input.data(), elements_of(input.tensor()),
                     timeout(options.timeout));
    dense.finish();
    return done(c10d::OpType::ALLGATHER, list);
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    Dense from("_allgather_base", input);
    Dense to("_allgather_base", output);
    auto elements = elements_of(from.tensor());
    auto parts =
        parts_of("_allgather_base", to.data(), elements_of(to.tensor()).count, elements, size_);
    check_type("_allgather_base", input, output);
    group_.allgather(parts, from.data(), elements, timeout(options.timeout));
    to.finish();
    return done(c10d::OpType::_ALLGATHER_BASE, {output});
  }

  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    check_pairs("allgather_into_tensor_coalesced", outputs.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) _allgather_base(outputs[i], inputs[i], options);
    return done(c10d::OpType::COALESCED, outputs);
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    Dense input("gather", only("gather", inputs));
    Tensors none;
    auto& list = rank_ == options.rootRank ? one_per_rank("gather", outputs, input.tensor()) : none;
    DenseList dense("gather", list);
    group_.gather(dense.outputs(), input.data(), elements_of(input.tensor()),
                  root(options.rootRank), timeout(options.timeout));
    dense.finish();
    return done(c10d::OpType::GATHER, list);
  }

  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    Dense output("scatter", only("scatter", outputs));
    Tensors none;
    auto& list =
        rank_ == options.rootRank ? one_per_rank("scatter", inputs, output.tensor()) : none;
    DenseList dense("scatter", list);
    group_.scatter(output.data(), dense.inputs(), elements_of(output.tensor()),
                   root(options.rootRank), timeout(options.timeout));
    output.finish();
    return done(c10d::OpType::SCATTER, outputs);
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    Dense output("reduce_scatter", only("reduce_scatter", outputs));
    DenseList dense("reduce_scatter", one_per_rank("reduce_scatter", inputs, output.tensor()));
    group_.reduce_scatter(output.data(), dense.inputs(), elements_of(output.tensor()),
                          reduce_kind(options.reduceOp), timeout(options.timeout));
    output.finish();
    return done(c10d::OpType::REDUCE_SCATTER, outputs);
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    Dense from("_reduce_scatter_base", input);
    Dense to("_reduce_scatter_base", output);
    auto elements = elements_of(to.tensor());
    auto parts = parts_of("_reduce_scatter_base", from.data(), elements_of(from.tensor()).count,
                          elements, size_);
    check_type("_reduce_scatter_base", input, output);
    std::span<const void* const> inputs{const_cast<const void* const*>(parts.data()), parts.size()};
    group_.reduce_scatter(to.data(), inputs, elements, reduce_kind(options.reduceOp),
                          timeout(options.timeout));
    to.finish();
    return done(c10d::OpType::_REDUCE_SCATTER_BASE, {output});
  }

  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    check_pairs("reduce_scatter_tensor_coalesced", outputs.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) _reduce_scatter_base(outputs[i], inputs[i], options);
    return done(c10d::OpType::COALESCED, outputs);
  }

  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    check_pairs("alltoall", outputs.size(), inputs.size());
    check_pairs("alltoall", outputs.size(), static_cast<size_t>(size_));
    DenseList to("alltoall", outputs);
    DenseList from("alltoall", inputs);
    std::vector<std::span<std::byte>> received;
    std::vector<std::span<const std::byte>> sent;
    for (size_t r = 0; r < outputs.size(); ++r) {
      received.emplace_back(static_cast<std::byte*>(to.outputs()[r]), outputs[r].nbytes());
      sent.emplace_back(static_cast<const std::byte*>(from.inputs()[r]), inputs[r].nbytes());
    }
    group_.alltoall(received, sent, element_type(inputs[0].scalar_type()),
                    timeout(options.timeout));
    to.finish();
    return done(c10d::OpType::ALLTOALL, outputs);
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    auto outputs = split("alltoall_base", output, output_splits);
    auto inputs = split("alltoall_base", input, input_splits);
    alltoall(outputs, inputs, options);
    return done(c10d::OpType::ALLTOALL_BASE, {output});
  }

 private:
  static Collectives::Timeout timeout(std::chrono::milliseconds given) {
    if (given.count() <= 0) return {};
    return given;
  }

  WorkPtr done(c10d::OpType type, Tensors tensors) const {
    return c10::make_intrusive<CompletedWork>(rank_, type, std::move(tensors));
  }

  int root(int64_t given) const {
    if (given >= 0 && given < size_) return static_cast<int>(given);
    throw Error(ErrorKind::kInvalidArgument,
                str("root rank ", given, " of a group of ", size_, " ranks, counted from 0"));
  }

  void allreduce_one(at::Tensor& tensor, const c10d::AllreduceOptions& options) {
    Dense dense("allreduce", tensor);
    group_.allreduce(dense.data(), elements_of(dense.tensor()), reduce_kind(options.reduceOp),
                     timeout(options.timeout));
    dense.finish();
  }

  Tensors& one_per_rank(const char* call, std::vector<Tensors>& lists,
                        const at::Tensor& like) const {
    if (lists.size() != 1 || lists[0].size() != static_cast<size_t>(size_)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(call, " in a group of ", size_, " ranks needs one list of ", size_,
                      " tensors, but got ", lists.size(), " lists",
                      lists.empty() ? "" : str(", the first of ", lists[0].size(), " tensors")));
    }
    for (auto& tensor : lists[0]) check_alike(call, tensor, like);
    return lists[0];
  }

  static void check_type(const char* call, const at::Tensor& input, const at::Tensor& output) {
    if (input.scalar_type() == output.scalar_type()) return;
    throw Error(ErrorKind::kInvalidArgument, str(call, " needs one type, but got ",
                                                 input.toString(), " and ", output.toString()));
  }

  static void check_pairs(const char* call, size_t outputs, size_t inputs) {
    if (outputs == inputs) return;
    throw Error(ErrorKind::kInvalidArgument,
                str(call, " needs as many outputs as inputs, one per rank, but got ", outputs,
                    " and ", inputs));
  }

  /// Rows of the first dimension for each rank; equal parts if no sizes are given.
  Tensors split(const char* call, const at::Tensor& tensor, std::vector<int64_t> sizes) const {
    check_tensor(call, tensor);
    int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
    if (sizes.empty() && rows % size_ == 0) {
      sizes.assign(static_cast<size_t>(size_), rows / size_);
    }
    int64_t sum = 0;
    for (auto size : sizes) sum += size;
    if (sizes.size() != static_cast<size_t>(size_) || sum != rows) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(call, " of ", rows, " rows between ", size_, " ranks: ", sizes.size(),
                      " split sizes that add up to ", sum));
    }
    return tensor.split_with_sizes(sizes);
  }

  Collectives group_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_shm_backend(UniqueFd region, int rank, int size,
                                                   const GroupOptions& options) {
  return c10::make_intrusive<ShmBackend>(std::move(region), rank, size, options);
}

}  // namespace manta::train
