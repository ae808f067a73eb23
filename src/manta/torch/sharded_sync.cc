#include "manta/torch/sharded_sync.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <unordered_set>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/replicas_internal.h"
#include "manta/torch/shard_registry_internal.h"
#include "manta/torch/shard_state_internal.h"

namespace manta::train::detail {

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

  state_->observe();
}

ShardedSync::~ShardedSync() {
  state_->stop_observing();
  for (auto& param : state_->params) leave_prepared(param->full);
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
    // The module's tensor in separate memory, with room for a gather.
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
  param->is_trained = parameter.requires_grad();
  param->shard.set_requires_grad(param->is_trained);
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(param.get()));
  shards_.insert(name, param->shard);
  state_->params.push_back(std::move(param));
  state_->release_unpinned();
}

// The user may freeze a parameter from parameters(), which is a share, or one from module().
void ShardedSync::Param::agree_on_freezing() {
  if (full.requires_grad() != shard.requires_grad()) {
    is_trained = !is_trained;
    full.set_requires_grad(is_trained);
    shard.set_requires_grad(is_trained);
  }
  is_trained = full.requires_grad();
}

void ShardedSync::State::rethrow() {
  if (error) std::rethrow_exception(error);
}

double ShardedSync::begin_forward() {
  state_->rethrow();
  for (auto& param : state_->params) param->agree_on_freezing();
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
  param.agree_on_freezing();
  if (!param.is_trained) return param.full.mutable_grad().reset();
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
  // Not a view: libtorch's zero_grad() throws on views.
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
  // Gradients that were accumulated under no_sync and not reached by this backward; the same on all
  // workers.
  for (auto& param : params) {
    if (param->full.grad().defined()) reduce(*param);
  }
  release_unpinned();
  Replicas replicas{*options.group, options.rank, options.world_size};
  if (options.step && !compares_steps(*backend)) compare_steps(replicas, options.step());
  if (!buffers.empty()) broadcast_tensors(replicas, buffers);
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

}  // namespace manta::train::detail
