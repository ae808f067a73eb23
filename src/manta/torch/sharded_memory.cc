// Finds the operations that take parameters of sharded models, and provides the parameters' memory
// while they run.

#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <limits>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/shard_registry_internal.h"
#include "manta/torch/shard_state_internal.h"
#include "manta/torch/torch_worker_internal.h"

namespace manta::train::detail {
namespace {

using ShardParam = ShardedSync::Param;
using NarrowPtr = std::shared_ptr<ShardedSync::Narrow>;

struct Held {
  ShardParam* param = nullptr;
  NarrowPtr narrow = {};  // set if the tensor is a narrower copy
  bool is_share = false;  // a share, to which optimizers write
};

// Observers of operations are plain functions; they find the model through this registry.
struct ShardRegistry {
  std::mutex mutex;
  std::unordered_map<const void*, Held> by_storage;
  std::unordered_map<const void*, ShardParam*> by_tensor;  // the module's tensors, and the shards
  std::optional<at::CallbackHandle> observer;
  std::vector<ShardedSync::State*> models;
};

ShardRegistry& registry() {
  static auto* registry = new ShardRegistry;  // outlives every thread
  return *registry;
}

constexpr const char* kNotGathered = "a parameter of a sharded model could not be gathered";

void free_memory(c10::Storage storage, torch::Device device) {
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, device));
  storage.set_nbytes(0);
}

// An operation cannot be stopped from here, but it throws when it asks for this memory.
void refuse_access(c10::Storage storage, torch::Device device, const std::string& why) {
  free_memory(storage, device);
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

thread_local bool is_gathering = false;
struct Gathering {
  bool before = std::exchange(is_gathering, true);
  ~Gathering() { is_gathering = before; }
};

bool is_outside(const ShardedSync::State& model) {
  return !model.in_forward && torch::autograd::get_current_graph_task_id() == -1;
}

// The parameters that one operation takes, until it ends.
struct Pins final : at::ObserverContext {
  std::vector<ShardParam*> params;
  std::vector<NarrowPtr> narrow;
  torch::Tensor converted;  // the one parameter of an operation that converts
  ~Pins() override {
    for (ShardParam* param : params) --param->pins;
    for (const NarrowPtr& copy : narrow) {
      --copy->pins;
      copy->is_unused = false;
    }
    // Outside forward and backward an optimizer may step at any time.
    for (ShardParam* param : params) release_if_outside(*param->owner);
    for (const NarrowPtr& copy : narrow) release_if_outside(*copy->param->owner);
  }
  static void release_if_outside(ShardedSync::State& model) {
    if (is_outside(model)) model.release_unpinned();
  }
};

void pin_tensor(const torch::Tensor& tensor, std::unique_ptr<Pins>& pins) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  Held held;
  {
    std::lock_guard lock(registry().mutex);
    auto found = registry().by_storage.find(tensor.storage().unsafeGetStorageImpl());
    if (found == registry().by_storage.end()) return;
    held = found->second;
  }
  if (held.is_share || held.param->owner->is_exchanging) return;
  if (!pins) pins = std::make_unique<Pins>();
  if (held.narrow) {
    ++held.narrow->pins;
    pins->narrow.push_back(std::move(held.narrow));
  } else {
    ++held.param->pins;
    pins->params.push_back(held.param);
  }
}

// An optimizer that puts gradients together, as LBFGS does, is for whole models: from shares it
// would compute a different result on each worker. The error comes when it takes the gradients,
// before it has changed anything. These gradients are then lost, and the model cannot be used any
// more.
void refuse_joined_gradients(const at::RecordFunction& function, ShardedSync::State& model) {
  std::unordered_set<const void*> joined;
  for (const c10::IValue& input : function.inputs()) {
    if (!input.isTensorList()) continue;
    for (const torch::Tensor& tensor : input.toTensorVector()) {
      if (tensor.defined() && tensor.has_storage())
        joined.insert(tensor.storage().unsafeGetStorageImpl());
    }
  }
  for (const auto& param : model.params) {
    const torch::Tensor& gradient = param->shard.grad();
    if (!gradient.defined() || !gradient.has_storage()) continue;
    if (!joined.contains(gradient.storage().unsafeGetStorageImpl())) continue;
    std::string why =
        str("an optimizer or the loop puts the gradients of a sharded model together (cat; that of "
            "parameter '",
            param->name,
            "'), as LBFGS does: a worker has only its shares of them; use an optimizer that treats "
            "every number by itself, such as AdamW, or a model that is not sharded");
    refuse_access(gradient.storage(), gradient.device(), why);
    if (!model.error)
      model.error = std::make_exception_ptr(Error(ErrorKind::kInvalidArgument, why));
  }
}

// Other threads put tensors together, too: they must not read data that the loop changes.
void refuse_joined_gradients(const at::RecordFunction& function) {
  std::lock_guard lock(registry().mutex);
  for (ShardedSync::State* model : registry().models) {
    if (model->loop != std::this_thread::get_id()) continue;
    if (!model->error && is_outside(*model)) refuse_joined_gradients(function, *model);
  }
}

// The shard's version does not show it: optimizers write to its data().
void count_write(const at::RecordFunction& function) {
  if (function.inputs().empty() || !function.inputs()[0].isTensor()) return;
  if (!std::string_view(function.name()).ends_with('_')) return;
  const torch::Tensor& to = function.inputs()[0].toTensor();
  if (!to.defined() || !to.has_storage()) return;
  std::lock_guard lock(registry().mutex);
  auto found = registry().by_storage.find(to.storage().unsafeGetStorageImpl());
  if (found != registry().by_storage.end() && found->second.is_share) ++found->second.param->writes;
}

std::unique_ptr<at::ObserverContext> before_operation(const at::RecordFunction& function) {
  if (is_gathering) return nullptr;
  std::unique_ptr<Pins> pins;
  for (const c10::IValue& input : function.inputs()) {
    if (input.isTensor()) {
      pin_tensor(input.toTensor(), pins);
    } else if (input.isTensorList()) {
      for (const torch::Tensor& tensor : input.toTensorVector()) pin_tensor(tensor, pins);
    } else if (input.isOptionalTensorList()) {
      for (const auto& tensor : input.toOptionalTensorVector()) {
        if (tensor) pin_tensor(*tensor, pins);
      }
    }
  }
  if (!pins) {
    count_write(function);
    if (std::string_view(function.name()) == "aten::cat") refuse_joined_gradients(function);
    return nullptr;
  }
  for (ShardParam* param : pins->params) param->owner->gather(*param);
  for (const NarrowPtr& copy : pins->narrow) copy->param->owner->fill(*copy);
  if (pins->params.size() == 1 && std::string_view(function.name()) == "aten::_to_copy") {
    pins->converted = function.inputs()[0].toTensor();
  }
  return pins;
}

// In forward, a narrower copy of a parameter is what autocast makes and autograd keeps.
void after_operation(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* pins = static_cast<Pins*>(context);
  if (!pins || !pins->converted.defined() || function.outputs().size() != 1) return;
  ShardParam& param = *pins->params[0];
  const torch::Tensor from = std::exchange(pins->converted, torch::Tensor());
  const torch::Tensor to = function.outputs()[0].toTensor();
  bool is_narrower = at::isFloatingType(to.scalar_type()) && to.device() == from.device() &&
                     to.element_size() < from.element_size();
  if (!param.owner->in_forward || !is_narrower || to.is_inference()) return;
  auto copy = std::make_shared<ShardedSync::Narrow>(ShardedSync::Narrow{
      .param = &param,
      .storage = c10::weak_intrusive_ptr<c10::StorageImpl>(to.storage().getWeakStorageImpl()),
      .type = to.scalar_type(),
      .from_sizes = from.sizes().vec(),
      .from_strides = from.strides().vec(),
      .from_offset = from.storage_offset(),
      .sizes = to.sizes().vec(),
      .strides = to.strides().vec(),
      .is_whole = param.full.is_contiguous() && from.numel() == param.full.numel() &&
                  from.is_non_overlapping_and_dense() && from.strides() == to.strides(),
      .version = to.unsafeGetTensorImpl()->version_counter(),
      .writes = param.writes});
  param.owner->narrow.push_back(copy);
  std::lock_guard lock(registry().mutex);
  registry().by_storage[to.storage().unsafeGetStorageImpl()] = {&param, std::move(copy)};
}

}  // namespace

void ShardedSync::State::observe() {
  ShardRegistry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& param : params) {
    all.by_storage[param->full.storage().unsafeGetStorageImpl()] = {param.get()};
    all.by_storage[param->padded.storage().unsafeGetStorageImpl()] = {param.get(), {}, true};
    all.by_tensor[param->full.unsafeGetTensorImpl()] = param.get();
    all.by_tensor[param->shard.unsafeGetTensorImpl()] = param.get();
  }
  all.models.push_back(this);
  if (all.models.size() > 1) return;
  all.observer = at::addGlobalCallback(at::RecordFunctionCallback(before_operation, after_operation)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

void ShardedSync::State::stop_observing() {
  ShardRegistry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& param : params) {
    all.by_storage.erase(param->full.storage().unsafeGetStorageImpl());
    all.by_storage.erase(param->padded.storage().unsafeGetStorageImpl());
    all.by_tensor.erase(param->full.unsafeGetTensorImpl());
    all.by_tensor.erase(param->shard.unsafeGetTensorImpl());
  }
  for (auto& copy : narrow) all.by_storage.erase(copy->storage._unsafe_get_target());
  std::erase(all.models, this);
  if (all.models.empty()) at::removeCallback(*std::exchange(all.observer, std::nullopt));
}

void ShardedSync::State::gather(Param& param) {
  if (param.is_gathered) return;
  Gathering gathering;
  try {
    release_unpinned();
    gather_into(param, param.full.storage(), param.padded);
    param.is_gathered = true;
  } catch (...) {
    fail(param, std::current_exception());
    refuse_access(param.full.storage(), param.full.device(), kNotGathered);
  }
}

void ShardedSync::State::fill(Narrow& copy) {
  auto storage = copy.storage.lock();
  if (copy.is_filled || !storage) return;
  Gathering gathering;
  try {
    fill(copy, c10::Storage(storage));
    copy.is_filled = copy.is_unused = true;
  } catch (...) {
    fail(*copy.param, std::current_exception());
    refuse_access(c10::Storage(std::move(storage)), copy.param->full.device(), kNotGathered);
  }
}

void ShardedSync::State::fill(const Narrow& copy, c10::Storage storage) {
  torch::NoGradGuard no_grad;
  Param& param = *copy.param;
  if (!error && param.writes != copy.writes) {
    auto changed = Error(ErrorKind::kInvalidArgument,
                         str("parameter '", param.name, "' of a sharded model has changed since ",
                             "it was converted to ", c10::toString(copy.type),
                             ", of which forward or backward computes; end the Autocast and call "
                             "backward before the optimizer steps"));
    fail(param, std::make_exception_ptr(changed));
  }
  if (copy.is_whole && !param.is_gathered) {  // half as much to send
    release_unpinned();
    return gather_into(param, std::move(storage), param.padded.to(copy.type));
  }
  gather(param);
  auto options = param.padded.options().dtype(copy.type);
  torch::Tensor values = torch::empty_strided(copy.sizes, copy.strides, options);
  values.copy_(
      param.full.detach().as_strided(copy.from_sizes, copy.from_strides, copy.from_offset));
  storage.set_data_ptr_noswap(values.storage().unsafeGetStorageImpl()->set_data_ptr(
      at::DataPtr(nullptr, param.full.device())));
  storage.set_nbytes(values.storage().nbytes());
  release_unpinned();
}

// Perhaps only this rank fails: the others must not wait for an exchange that it never makes. This
// rank's error is the cause, and theirs are consequences.
void ShardedSync::State::fail(const Param& param, std::exception_ptr why) {
  if (error) return;
  error = std::move(why);
  std::string reason = "an unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    reason = torch_error_text(thrown);
  } catch (...) {
  }
  fail_backend(*backend, ErrorKind::kWorkerLost,
               str("rank ", options.rank, " could not gather parameter '", param.name,
                   "' of a sharded model: ", reason));
}

// Gathers the shares of all workers, one after the other.
void ShardedSync::State::gather_into(const Param& param, c10::Storage storage,
                                     const torch::Tensor& share) {
  torch::NoGradGuard no_grad;
  int64_t numbers = share.numel() * options.world_size;
  size_t bytes = static_cast<size_t>(numbers) * share.element_size();
  storage.set_data_ptr_noswap(c10::GetAllocator(share.device().type())->allocate(bytes));
  storage.set_nbytes(bytes);
  torch::Tensor whole = torch::empty({0}, share.options());
  whole.set_(storage, 0, {numbers}, {1});
  try {
    if (!error) {
      // Not every backend knows every type.
      torch::Tensor to = whole.view(torch::kUInt8), from = share.view(torch::kUInt8);
      is_exchanging = true;
      backend->_allgather_base(to, from)->wait();
      is_exchanging = false;
      return;
    }
  } catch (...) {
    fail(param, std::current_exception());
  }
  is_exchanging = false;
  whole.fill_(std::numeric_limits<double>::quiet_NaN());  // so that any use of it is noticed
}

void ShardedSync::State::release_unpinned() {
  for (auto& param : params) {
    if (!param->is_gathered || param->pins > 0) continue;
    free_memory(param->full.storage(), param->full.device());
    param->is_gathered = false;
  }
  forget_freed();
  for (auto& copy : narrow) {
    bool is_needed = copy->pins > 0 || (copy->is_unused && in_forward);
    if (!copy->is_filled || is_needed || copy->version.current_version() > 0) continue;
    if (auto storage = copy->storage.lock()) {
      free_memory(c10::Storage(std::move(storage)), copy->param->full.device());
      copy->is_filled = false;
    }
  }
}

// Forgets copies that are not in use any more.
void ShardedSync::State::forget_freed() {
  std::erase_if(narrow, [](const NarrowPtr& copy) {
    if (!copy->storage.expired()) return false;
    std::lock_guard lock(registry().mutex);
    registry().by_storage.erase(copy->storage._unsafe_get_target());
    return true;
  });
}

std::optional<ShardInfo> find_shard(const torch::Tensor& tensor) {
  std::lock_guard lock(registry().mutex);
  auto found = registry().by_tensor.find(tensor.unsafeGetTensorImpl());
  if (found == registry().by_tensor.end()) return std::nullopt;
  const ShardParam& param = *found->second;
  return ShardInfo{param.shard, param.range, param.full.sizes().vec(), param.owner->options.rank,
                   param.owner->options.world_size};
}

bool any_of_shards(const std::vector<torch::Tensor>& parameters, bool mine) {
  c10::intrusive_ptr<c10d::Backend> backend;
  torch::Device device = torch::kCPU;
  {
    std::lock_guard lock(registry().mutex);
    for (const torch::Tensor& parameter : parameters) {
      auto found = registry().by_tensor.find(parameter.unsafeGetTensorImpl());
      if (found == registry().by_tensor.end()) continue;
      backend = found->second->owner->backend;
      device = parameter.device();
      break;
    }
  }
  if (!backend) return mine;
  std::vector<torch::Tensor> sent = {torch::full(
      {1}, mine ? 1.0 : 0.0, torch::TensorOptions().dtype(torch::kFloat).device(device))};
  c10d::AllreduceOptions how;
  how.reduceOp = c10d::ReduceOp::MAX;
  backend->allreduce(sent, how)->wait();
  return sent[0].item<float>() != 0;
}

}  // namespace manta::train::detail
