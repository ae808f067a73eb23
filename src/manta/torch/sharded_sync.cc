#include "manta/torch/sharded_sync.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/replicas_internal.h"
#include "manta/torch/shard_registry_internal.h"

namespace manta::train::detail {

struct ShardedSync::Param {
  ShardedSync::State* owner = nullptr;
  std::string name;
  torch::Tensor full;    // the module's own
  torch::Tensor padded;  // the shard with room for `capacity` numbers
  torch::Tensor shard;   // its part that counts: what optimizers take
  ShardRange range;
  int64_t capacity = 0;
  int pins = 0;  // operations under way that use it
  bool is_gathered = false;
};

struct ShardedSync::State {
  SyncOptions options;
  c10::intrusive_ptr<c10d::Backend> backend;
  std::vector<std::unique_ptr<Param>> params;
  std::vector<torch::Tensor> buffers;
  bool in_forward = false;
  int task = -1;             // the backward that finish_backward was queued for
  std::exception_ptr error;  // of a gather: those who call it swallow exceptions
  const int* paused = nullptr;

  void gather(Param& param);
  void release_unpinned();
  void rethrow();
  void on_gradient(Param& param);
  void reduce(Param& param);
  void finish_backward();
};

namespace {

using ShardParam = ShardedSync::Param;

// Observers of operations are plain functions: this is how they find the model.
struct ShardRegistry {
  std::mutex mutex;
  std::unordered_map<const void*, ShardParam*> by_storage;
  std::unordered_map<const void*, ShardParam*> by_tensor;  // the module's, and the shards
  std::optional<at::CallbackHandle> observer;
  size_t models = 0;
};

ShardRegistry& registry() {
  static auto* registry = new ShardRegistry;  // outlives every thread
  return *registry;
}

thread_local bool is_gathering = false;
struct Gathering {
  bool before = std::exchange(is_gathering, true);
  ~Gathering() { is_gathering = before; }
};

// The parameters of one operation, until it ends.
struct Pins final : at::ObserverContext {
  std::vector<ShardParam*> params;
  ~Pins() override {
    for (ShardParam* param : params) --param->pins;
    // Outside of forward and backward an optimizer may step at any time.
    for (ShardParam* param : params) {
      auto* owner = param->owner;
      if (!owner->in_forward && torch::autograd::get_current_graph_task_id() == -1) {
        owner->release_unpinned();
      }
    }
  }
};

void pin_tensor(const torch::Tensor& tensor, std::unique_ptr<Pins>& pins) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  ShardParam* param = nullptr;
  {
    std::lock_guard lock(registry().mutex);
    auto found = registry().by_storage.find(tensor.storage().unsafeGetStorageImpl());
    if (found == registry().by_storage.end()) return;
    param = found->second;
  }
  if (!pins) pins = std::make_unique<Pins>();
  ++param->pins;
  pins->params.push_back(param);
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
  if (!pins) return nullptr;
  for (ShardParam* param : pins->params) param->owner->gather(*param);
  return pins;
}

void after_operation(const at::RecordFunction&, at::ObserverContext*) {}  // the context ends itself

}  // namespace

class ShardedSync::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(Param* param) : param_(param) {}
  void operator()(const torch::Tensor&) override { param_->owner->on_gradient(*param_); }

 private:
  Param* param_;
};

ShardedSync::ShardedSync(torch::nn::Module& module, SyncOptions options)
    : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->paused = &paused_;
  const SyncOptions& given = state_->options;
  if (!given.group || given.group->getSize() != given.world_size ||
      given.group->getRank() != given.rank) {
    throw Error(ErrorKind::kInvalidArgument,
                str("prepare_model: rank ", given.rank, " of ", given.world_size,
                    " workers needs a process group of that size"));
  }
  auto parameters = module.named_parameters();
  auto device =
      parameters.is_empty() ? c10::DeviceType::CPU : parameters.front().value().device().type();
  state_->backend = backend_for(*given.group, device);
  Replicas replicas{*given.group, given.rank, given.world_size};
  check_equal_models(replicas, describe_model(module));
  state_->buffers = module.buffers();
  broadcast_tensors(replicas, state_->buffers);
  if (!given.model.broadcast_buffers) state_->buffers.clear();
  for (const auto& item : parameters) {
    if (find_shard(item.value()) || has_gradient_hook(item.value())) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("prepare_model: parameter '", item.key(),
                      "' already belongs to a data-parallel model; prepare each model once and use "
                      "what prepare_model returned"));
    }
  }
  std::vector<std::pair<std::string, torch::Tensor>> list;
  std::unordered_set<const void*> seen;  // tied weights have several names
  for (const auto& item : parameters) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
      list.emplace_back(item.key(), item.value());
    }
  }
  parameters.clear();
  for (auto& [name, parameter] : list) split(name, parameter);

  ShardRegistry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& param : state_->params) {
    all.by_storage[param->full.storage().unsafeGetStorageImpl()] = param.get();
    all.by_tensor[param->full.unsafeGetTensorImpl()] = param.get();
    all.by_tensor[param->shard.unsafeGetTensorImpl()] = param.get();
  }
  if (all.models++ == 0) {
    all.observer =
        at::addGlobalCallback(at::RecordFunctionCallback(before_operation, after_operation)
                                  .needsInputs(true)
                                  .scopes({at::RecordScope::FUNCTION}));
  }
}

ShardedSync::~ShardedSync() {
  ShardRegistry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& param : state_->params) {
    all.by_storage.erase(param->full.storage().unsafeGetStorageImpl());
    all.by_tensor.erase(param->full.unsafeGetTensorImpl());
    all.by_tensor.erase(param->shard.unsafeGetTensorImpl());
    torch::autograd::impl::set_post_acc_grad_hooks(param->full, nullptr);
  }
  if (--all.models == 0) at::removeCallback(*std::exchange(all.observer, std::nullopt));
}

void ShardedSync::split(const std::string& name, torch::Tensor parameter) {
  torch::NoGradGuard no_grad;
  const SyncOptions& given = state_->options;
  auto param = std::make_unique<Param>();
  param->owner = state_.get();
  param->name = name;
  param->range = shard_of(parameter.numel(), given.rank, given.world_size);
  param->capacity = shard_capacity(parameter.numel(), given.world_size);
  auto like = parameter.options().requires_grad(false);
  {
    // The module's tensor in memory of its own, with room for what a gather brings.
    torch::Tensor whole = torch::zeros({param->capacity * given.world_size}, like);
    torch::Tensor view = whole.narrow(0, 0, parameter.numel()).view(parameter.sizes());
    view.copy_(parameter.detach());
    broadcast_tensors({*given.group, given.rank, given.world_size}, {view});
    param->padded = whole.narrow(0, given.rank * param->capacity, param->capacity).clone();
    parameter.set_data(view);
  }
  param->full = parameter;
  param->is_gathered = true;
  param->shard = torch::empty({0}, like);
  param->shard.set_(param->padded.storage(), 0, {param->range.size()}, {1});
  param->shard.set_requires_grad(parameter.requires_grad());
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(param.get()));
  shards_.insert(name, param->shard);
  state_->params.push_back(std::move(param));
  state_->release_unpinned();
}

void ShardedSync::State::gather(Param& param) {
  if (param.is_gathered) return;
  Gathering gathering;
  torch::NoGradGuard no_grad;
  release_unpinned();
  int64_t numbers = param.capacity * options.world_size;
  size_t bytes = static_cast<size_t>(numbers) * param.full.element_size();
  c10::Storage storage = param.full.storage();
  storage.set_data_ptr_noswap(c10::GetAllocator(param.full.device().type())->allocate(bytes));
  storage.set_nbytes(bytes);
  param.is_gathered = true;
  torch::Tensor whole = torch::empty({0}, param.padded.options());
  whole.set_(storage, 0, {numbers}, {1});
  try {
    if (!error) {
      backend->_allgather_base(whole, param.padded)->wait();
      return;
    }
  } catch (...) {
    error = std::current_exception();
  }
  whole.fill_(std::numeric_limits<double>::quiet_NaN());  // nothing is computed of it unnoticed
}

void ShardedSync::State::release_unpinned() {
  for (auto& param : params) {
    if (!param->is_gathered || param->pins > 0) continue;
    c10::Storage storage = param->full.storage();
    storage.set_data_ptr_noswap(at::DataPtr(nullptr, param->full.device()));
    storage.set_nbytes(0);
    param->is_gathered = false;
  }
}

void ShardedSync::State::rethrow() {
  if (error) std::rethrow_exception(error);
}

double ShardedSync::begin_forward() {
  state_->rethrow();
  state_->release_unpinned();
  state_->in_forward = true;
  if (!torch::GradMode::is_enabled()) return 1;
  return state_->options.weight ? state_->options.weight() : 1;
}

void ShardedSync::end_forward(const std::vector<torch::Tensor>&) {
  state_->in_forward = false;
  state_->release_unpinned();
  state_->rethrow();
}

void ShardedSync::rebuild() {
  throw Error(ErrorKind::kInvalidArgument,
              "to: a sharded model cannot change its type or device; call to() before "
              "prepare_model");
}

void ShardedSync::State::on_gradient(Param& param) {
  rethrow();
  if (*paused > 0) return;
  int now = torch::autograd::get_current_graph_task_id();
  if (now != task) {
    task = now;
    if (options.exchanging) options.exchanging(true);
    torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_backward(); });
  }
  reduce(param);
}

void ShardedSync::State::reduce(Param& param) {
  Gathering gathering;
  torch::NoGradGuard no_grad;
  torch::Tensor gradient = std::exchange(param.full.mutable_grad(), torch::Tensor());
  if (gradient.layout() != torch::kStrided) {
    throw Error(ErrorKind::kInvalidArgument,
                str("backward: parameter '", param.name,
                    "' has a sparse gradient, which cannot be split over the workers; make its "
                    "module with sparse(false)"));
  }
  int64_t numbers = param.capacity * options.world_size;
  torch::Tensor flat = gradient.contiguous().view({-1});
  gradient = torch::Tensor();
  if (flat.numel() != numbers) flat = torch::constant_pad_nd(flat, {0, numbers - flat.numel()});
  torch::Tensor mine = torch::empty({param.capacity}, flat.options());
  backend->_reduce_scatter_base(mine, flat)->wait();
  flat = torch::Tensor();
  // Not a view: libtorch's zero_grad() throws on them.
  torch::Tensor share = mine.narrow(0, 0, param.range.size()).div(options.world_size);
  torch::Tensor& kept = param.shard.mutable_grad();
  if (kept.defined()) {
    kept.add_(share);
  } else {
    kept = share;
  }
}

void ShardedSync::State::finish_backward() {
  task = -1;
  // What was accumulated under no_sync and not reached by this backward; the same on all workers.
  for (auto& param : params) {
    if (param->full.grad().defined()) reduce(*param);
  }
  release_unpinned();
  if (!buffers.empty()) {
    broadcast_tensors({*options.group, options.rank, options.world_size}, buffers);
  }
  if (options.exchanging) options.exchanging(false);
  rethrow();
}

double ShardedSync::clip_grad_norm(double max_norm, double norm_type) {
  torch::NoGradGuard no_grad;
  bool is_max = std::isinf(norm_type);
  if (!(norm_type > 0)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("clip_grad_norm_: norm_type must be positive (was ", norm_type, ")"));
  }
  double sum = 0;
  for (auto& param : state_->params) {
    const torch::Tensor& gradient = param->shard.grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    torch::Tensor size = gradient.to(torch::kDouble).abs();
    double value = is_max ? size.max().item<double>() : size.pow(norm_type).sum().item<double>();
    sum = is_max ? std::max(sum, value) : sum + value;
  }
  auto device =
      state_->params.empty() ? torch::Device(torch::kCPU) : state_->params[0]->shard.device();
  std::vector<torch::Tensor> sent = {
      torch::full({1}, sum, torch::TensorOptions().dtype(torch::kDouble).device(device))};
  c10d::AllreduceOptions how;
  how.reduceOp = is_max ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
  state_->backend->allreduce(sent, how)->wait();
  double total = sent[0].item<double>();
  if (!is_max) total = std::pow(total, 1 / norm_type);
  double factor = max_norm / (total + 1e-6);
  if (factor < 1) {
    for (auto& param : state_->params) {
      if (param->shard.grad().defined()) param->shard.mutable_grad().mul_(factor);
    }
  }
  return total;
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
