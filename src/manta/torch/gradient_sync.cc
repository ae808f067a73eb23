#include "manta/torch/gradient_sync.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/flat_exchange_internal.h"
#include "manta/torch/late_exchange_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/replicas_internal.h"

namespace manta::train::detail {
namespace {

struct WeighGradient : torch::autograd::Function<WeighGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& tensor, double weight) {
    context->saved_data["weight"] = weight;
    return tensor.view_as(tensor);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->saved_data["weight"].toDouble(), torch::Tensor()};
  }
};

// Marks a model that was prepared, after its hooks are gone.
class Trace final : public torch::autograd::PostAccumulateGradHook {
  void operator()(const torch::Tensor&) override {}
};

class Silence final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

std::vector<torch::Tensor> trainable(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> found;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(found),
               [](const torch::Tensor& parameter) { return parameter.requires_grad(); });
  return found;
}

bool all_on_cpu(const std::vector<torch::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const torch::Tensor& tensor) { return tensor.is_cpu(); });
}

size_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<torch::Tensor>& parameters,
                                            const SyncOptions& options) {
  std::vector<bool> sparse(parameters.size(), false);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {options.first_bucket_bytes, options.model.bucket_bytes}, sparse);
  // The last layers' gradients come first.
  std::reverse(buckets.begin(), buckets.end());
  // No views as gradients: libtorch's zero_grad() throws on them.
  return std::make_shared<c10d::Reducer>(
      parameters, std::move(buckets), options.group, sparse,
      static_cast<int64_t>(options.model.bucket_bytes), options.model.find_unused_parameters,
      /*gradient_as_bucket_view=*/false, std::unordered_map<size_t, std::string>(),
      static_cast<int64_t>(options.first_bucket_bytes),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<int64_t>());
}

}  // namespace

// At most one of them; none if there is nothing to train.
struct GradientSync::Path {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::unique_ptr<FlatExchange> flat;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;  // without one, Reducer crashes when the set of unused
                                         // parameters changes
  bool reducer_armed = false;            // a forward has told Reducer to wait for gradients
  bool late = false;                     // Reducer takes no part in the backward that runs
  bool stale = false;  // Reducer would count parameters of such a backward as used in the next
};

class GradientSync::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientSync* owner, const std::string& name, bool was_trainable)
      : owner_(owner), name_(name), was_trainable_(was_trainable) {}
  const GradientSync* owner() const { return owner_; }

  void operator()(const torch::Tensor&) override {
    if (!was_trainable_) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("backward: parameter '", name_,
                      "' was frozen when prepare_model was called and now has a gradient, which "
                      "would differ between the workers; call requires_grad_() before "
                      "prepare_model"));
    }
    owner_->on_gradient();
  }

 private:
  GradientSync* owner_;
  std::string name_;
  bool was_trainable_;
};

GradientSync::GradientSync(torch::nn::Module& module, SyncOptions options)
    : options_(std::move(options)), path_(std::make_unique<Path>()) {
  if (!options_.group || options_.group->getSize() != options_.world_size ||
      options_.group->getRank() != options_.rank) {
    throw Error(ErrorKind::kInvalidArgument,
                str("prepare_model: rank ", options_.rank, " of ", options_.world_size,
                    " workers needs a process group of that size"));
  }
  std::unordered_set<const void*> seen;  // tied weights have several names
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    names_.push_back(item.key());
    parameters_.push_back(item.value());
  }
  buffers_ = module.buffers();
  Replicas replicas{*options_.group, options_.rank, options_.world_size};
  check_equal_models(replicas, describe_model(module));
  broadcast_tensors(replicas, parameters_);
  broadcast_tensors(replicas, buffers_);
  if (!options_.model.broadcast_buffers) buffers_.clear();
  install_hooks();
  rebuild();
}

GradientSync::~GradientSync() { remove_hooks(); }

void GradientSync::rebuild() {
  path_->flat.reset();
  path_->logger.reset();
  path_->reducer.reset();
  path_->reducer_armed = path_->stale = false;
  std::vector<torch::Tensor> trained = trainable(parameters_);
  if (trained.empty()) return;
  path_->backend = backend_for(*options_.group, trained[0].device().type());
  if (all_on_cpu(trained) && all_on_cpu(buffers_) &&
      bytes_of(trained) + bytes_of(buffers_) <= options_.flat_limit_bytes) {
    path_->flat = std::make_unique<FlatExchange>(std::move(trained), buffers_, path_->backend,
                                                 options_.rank, options_.world_size);
  } else {
    path_->reducer = make_reducer(trained, options_);
    path_->logger = std::make_shared<c10d::Logger>(path_->reducer);
    path_->reducer->set_logger(path_->logger);
  }
}

bool GradientSync::is_flat() const { return path_->flat != nullptr; }

void GradientSync::install_hooks() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& parameter = parameters_[i];
    if (has_gradient_hook(parameter)) {
      remove_hooks();
      throw Error(ErrorKind::kInvalidArgument,
                  str("prepare_model: parameter '", names_[i],
                      "' already belongs to a data-parallel model; prepare each model once and "
                      "use what prepare_model returned"));
    }
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter, std::make_unique<Hook>(this, names_[i], parameter.requires_grad()));
  }
}

void GradientSync::remove_hooks() {
  for (const torch::Tensor& parameter : parameters_) {
    if (!has_gradient_hook(parameter)) continue;
    auto* hook = dynamic_cast<Hook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
    if (hook && hook->owner() == this) leave_prepared(parameter);
  }
}

double GradientSync::begin_forward() {
  if (!torch::GradMode::is_enabled()) return 1;
  // Nothing else makes Reducer forget which parameters were used. It would miss the gradient of a
  // parameter that zero_grad() has removed and that this forward does not use.
  if (path_->stale && !path_->reducer_armed && paused_ == 0) rebuild();
  if (path_->reducer && paused_ == 0) path_->reducer->prepare_for_forward();
  if (path_->reducer) {
    try {
      path_->reducer->rebuild_buckets();  // throws if it still waits for gradients
    } catch (const c10::Error& error) {
      if (options_.model.find_unused_parameters) throw;
      throw Error(
          ErrorKind::kInvalidArgument,
          str("forward: the last backward did not reach every parameter of the model, so ",
              "that its gradients were not averaged; let every backward use all, or leave ",
              "find_unused_parameters of prepare_model true: ", error.what_without_backtrace()));
    }
  }
  return options_.weight ? options_.weight() : 1;
}

bool GradientSync::needs_outputs() const {
  return path_->reducer && options_.model.find_unused_parameters && paused_ == 0 &&
         torch::GradMode::is_enabled();
}

void GradientSync::end_forward(const std::vector<torch::Tensor>& outputs) {
  if (!path_->reducer || paused_ > 0 || !torch::GradMode::is_enabled()) return;
  // Reducer would warn that the search for unused parameters found none.
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard guard(&silence);
  path_->reducer->prepare_for_backward(outputs);
  path_->reducer_armed = true;
}

void GradientSync::on_gradient() {
  // Reducer has its own hooks, which run after this one; only the buffers remain for the end.
  // Reducer takes part only in the first backward after a forward, so the gradients of a further
  // one (for example of a second loss of one output) are averaged at the end, too.
  bool wanted = paused_ == 0 || path_->reducer_armed;
  int task = torch::autograd::get_current_graph_task_id();
  if (!wanted || task == task_) return;
  task_ = task;
  path_->late = path_->reducer && !path_->reducer_armed;
  if (options_.exchanging) options_.exchanging(true);
  torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_backward(); });
}

void GradientSync::finish_backward() {
  task_ = -1;
  path_->reducer_armed = false;
  Replicas replicas{*options_.group, options_.rank, options_.world_size};
  int64_t step = options_.step ? options_.step() : -1;
  if (path_->flat) {
    path_->flat->run(step);
  } else {
    if (options_.step && !compares_steps(*path_->backend)) compare_steps(replicas, step);
    if (path_->late) {
      average_gradients(replicas, trainable(parameters_));
      path_->stale = options_.model.find_unused_parameters;
    }
    if (!buffers_.empty()) broadcast_tensors(replicas, buffers_);
  }
  if (options_.exchanging) options_.exchanging(false);
}

bool was_prepared(const torch::Tensor& parameter) {
  return torch::autograd::impl::get_autograd_meta(parameter) != nullptr &&
         torch::autograd::impl::post_acc_grad_hooks(parameter) != nullptr;
}

bool has_gradient_hook(const torch::Tensor& parameter) {
  return was_prepared(parameter) &&
         !dynamic_cast<Trace*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

void leave_prepared(const torch::Tensor& parameter) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Trace>());
}

torch::Tensor weigh_gradient(const torch::Tensor& tensor, double weight) {
  return WeighGradient::apply(tensor, weight);
}

void throw_unsupported_output(const char* type, double weight) {
  throw Error(
      ErrorKind::kInvalidArgument,
      str("forward: the model returns ", demangle(type),
          ", in which its tensors cannot be found, but ",
          weight != 1 ? str("this worker's rows count with weight ", weight)
                      : std::string("models of this size are searched for unused parameters"),
          "; return tensors, or tuples, pairs, vectors, arrays, maps or optionals of them, or give "
          "the struct a member template <class F> void each_tensor(F&& f) that calls f with each "
          "of its tensors"));
}

}  // namespace manta::train::detail
