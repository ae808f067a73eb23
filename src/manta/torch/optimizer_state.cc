#include <algorithm>
#include <memory>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/json_number_internal.h"
#include "manta/torch/lbfgs_state_internal.h"
#include "manta/torch/optimizer_state_internal.h"

namespace manta::detail {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;
using TensorMap = std::map<std::string, torch::Tensor>;

// The description of one class: its options and, for each parameter, its tensors and its step.
struct Adam {
  using Type = torch::optim::Adam;
  using Options = torch::optim::AdamOptions;
  using State = torch::optim::AdamParamState;
  static constexpr const char* kName = "Adam";
  static void each_option(auto& o, auto f) {
    f("lr", o.lr());
    f("betas", o.betas());
    f("eps", o.eps());
    f("weight_decay", o.weight_decay());
    f("amsgrad", o.amsgrad());
  }
  static void each_tensor(auto& s, auto f) {
    f("exp_avg", s.exp_avg());
    f("exp_avg_sq", s.exp_avg_sq());
    f("max_exp_avg_sq", s.max_exp_avg_sq());
  }
};

struct AdamW : Adam {
  using Type = torch::optim::AdamW;
  using Options = torch::optim::AdamWOptions;
  using State = torch::optim::AdamWParamState;
  static constexpr const char* kName = "AdamW";
};

struct Sgd {
  using Type = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr const char* kName = "SGD";
  static void each_option(auto& o, auto f) {
    f("lr", o.lr());
    f("momentum", o.momentum());
    f("dampening", o.dampening());
    f("weight_decay", o.weight_decay());
    f("nesterov", o.nesterov());
  }
  static void each_tensor(auto& s, auto f) { f("momentum_buffer", s.momentum_buffer()); }
};

struct RmsProp {
  using Type = torch::optim::RMSprop;
  using Options = torch::optim::RMSpropOptions;
  using State = torch::optim::RMSpropParamState;
  static constexpr const char* kName = "RMSprop";
  static void each_option(auto& o, auto f) {
    f("lr", o.lr());
    f("alpha", o.alpha());
    f("eps", o.eps());
    f("weight_decay", o.weight_decay());
    f("momentum", o.momentum());
    f("centered", o.centered());
  }
  static void each_tensor(auto& s, auto f) {
    f("square_avg", s.square_avg());
    f("momentum_buffer", s.momentum_buffer());
    f("grad_avg", s.grad_avg());
  }
};

struct Adagrad {
  using Type = torch::optim::Adagrad;
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr const char* kName = "Adagrad";
  static void each_option(auto& o, auto f) {
    f("lr", o.lr());
    f("lr_decay", o.lr_decay());
    f("weight_decay", o.weight_decay());
    f("initial_accumulator_value", o.initial_accumulator_value());
    f("eps", o.eps());
  }
  static void each_tensor(auto& s, auto f) { f("sum", s.sum()); }
};

struct Lbfgs {
  static constexpr const char* kName = "LBFGS";
};

Json encode_option(bool value) { return value; }
Json encode_option(double value) { return encode_number(value); }
Json encode_option(const std::tuple<double, double>& value) {
  return {encode_number(std::get<0>(value)), encode_number(std::get<1>(value))};
}

[[noreturn]] void reject_option(const char* name, const Json& value) {
  throw Error(ErrorKind::kCorrupt,
              manta::str("state.json has ", short_text(value), " as its option ", name));
}
void decode_option(const char* name, const Json& value, bool& to) {
  if (!value.is_boolean()) reject_option(name, value);
  to = value.get<bool>();
}
void decode_option(const char* name, const Json& value, double& to) {
  auto number = decode_number(value);
  if (!number) reject_option(name, value);
  to = *number;
}
void decode_option(const char* name, const Json& value, std::tuple<double, double>& to) {
  if (!value.is_array() || value.size() != 2) reject_option(name, value);
  decode_option(name, value[0], std::get<0>(to));
  decode_option(name, value[1], std::get<1>(to));
}

template <class S>
constexpr bool has_step = requires(S& state) {
  state.step(int64_t{0});
};

// Calls `function` with the description of the optimizer's class.
template <class F>
auto with_kind(const Optimizer& optimizer, F function) {
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer)) return function(Adam());
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer)) return function(AdamW());
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer)) return function(Sgd());
  if (dynamic_cast<const torch::optim::RMSprop*>(&optimizer)) return function(RmsProp());
  if (dynamic_cast<const torch::optim::Adagrad*>(&optimizer)) return function(Adagrad());
  if (dynamic_cast<const torch::optim::LBFGS*>(&optimizer)) return function(Lbfgs());
  throw Error(
      ErrorKind::kInvalidArgument,
      manta::str("TorchCheckpoint: the state of a ", demangle(typeid(optimizer).name()),
                 " cannot be kept; only of Adam, AdamW, SGD, RMSprop, Adagrad and LBFGS. Keep what "
                 "yours needs with set(), or as tensors in a module of your own"));
}

template <class Kind>
OptimizerState read(const Optimizer& optimizer, Kind) {
  OptimizerState result;
  Json groups = Json::array();
  Json states = Json::object();
  size_t index = 0;
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const typename Kind::Options&>(group.options());
    Json described = Json::object();
    Kind::each_option(options, [&](const char* name, const auto& value) {
      described[name] = encode_option(value);
    });
    groups.push_back({{"params", group.params().size()}, {"options", described}});
    for (const torch::Tensor& parameter : group.params()) {
      std::string prefix = std::to_string(index++);
      auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      const auto& state = static_cast<const typename Kind::State&>(*found->second);
      Json& described_state = states[prefix] = {{"tensors", Json::array()}};
      if constexpr (has_step<typename Kind::State>) described_state["step"] = state.step();
      Kind::each_tensor(state, [&](const char* name, const torch::Tensor& tensor) {
        if (!tensor.defined()) return;
        described_state["tensors"].push_back(name);
        result.tensors.push_back({prefix + "." + name, tensor});
      });
    }
  }
  result.description = {{"type", Kind::kName}, {"groups", groups}, {"state", states}};
  return result;
}

OptimizerState read(const Optimizer& optimizer, Lbfgs) {
  return read_lbfgs(static_cast<const torch::optim::LBFGS&>(optimizer));
}

// Caught in write_optimizer, which adds the context.
[[noreturn]] void fail(ErrorKind kind, const std::string& why) { throw Error(kind, why); }

void check_groups(const Optimizer& optimizer, const Json& description, const char* name) {
  if (description.at("type") != name) {
    fail(ErrorKind::kInvalidArgument, manta::str("the checkpoint has the state of ",
                                                 description.at("type"), ", it is an ", name));
  }
  const Json& groups = description.at("groups");
  if (groups.size() != optimizer.param_groups().size()) {
    fail(ErrorKind::kInvalidArgument, manta::str("it has ", optimizer.param_groups().size(),
                                                 " parameter groups, in the "
                                                 "checkpoint there are ",
                                                 groups.size()));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    size_t here = optimizer.param_groups()[i].params().size();
    if (groups[i].at("params") != here) {
      fail(ErrorKind::kInvalidArgument,
           manta::str("its parameter group ", i, " has ", here, " parameters, in the checkpoint ",
                      groups[i].at("params")));
    }
  }
}

template <class Kind>
std::unique_ptr<OptimizerParamState> make_state(const std::string& prefix, const Json& stored,
                                                const torch::Tensor& parameter,
                                                const TensorMap& tensors) {
  auto state = std::make_unique<typename Kind::State>();
  if constexpr (has_step<typename Kind::State>)
    state->step(
        JsonFields(stored, std::string("state.json"), prefix + ".").integer("step", 0, INT64_MAX));
  const Json& names = stored.at("tensors");
  Kind::each_tensor(*state, [&](const char* name, torch::Tensor& tensor) {
    if (std::find(names.begin(), names.end(), name) == names.end()) return;
    auto found = tensors.find(prefix + "." + name);
    if (found == tensors.end()) {
      fail(ErrorKind::kCorrupt, manta::str("tensor '", prefix, ".", name, "' is missing"));
    }
    if (found->second.sizes() != parameter.sizes()) {
      fail(ErrorKind::kInvalidArgument,
           manta::str("'", found->first, "' has shape ", found->second.sizes(), ", the parameter ",
                      parameter.sizes()));
    }
    tensor = torch::empty_like(
        parameter, parameter.options().dtype(found->second.scalar_type()).requires_grad(false));
    tensor.copy_(found->second);
  });
  return state;
}

template <class Kind>
void write(Optimizer& optimizer, const Json& description, const TensorMap& tensors, Kind) {
  torch::NoGradGuard no_grad;
  check_groups(optimizer, description, Kind::kName);
  std::vector<std::unique_ptr<typename Kind::Options>> options;
  std::vector<std::pair<void*, std::unique_ptr<OptimizerParamState>>> states;
  size_t index = 0;
  for (const auto& group : optimizer.param_groups()) {
    const Json& stored = description.at("groups").at(options.size()).at("options");
    options.push_back(std::make_unique<typename Kind::Options>(
        static_cast<const typename Kind::Options&>(group.options())));
    Kind::each_option(*options.back(), [&](const char* name, auto& value) {
      decode_option(name, stored.at(name), value);
    });
    for (const torch::Tensor& parameter : group.params()) {
      std::string prefix = std::to_string(index++);
      auto stored_state = description.at("state").find(prefix);
      if (stored_state == description.at("state").end()) continue;
      states.emplace_back(parameter.unsafeGetTensorImpl(),
                          make_state<Kind>(prefix, *stored_state, parameter, tensors));
    }
  }
  for (size_t i = 0; i < options.size(); ++i) {
    optimizer.param_groups()[i].set_options(std::move(options[i]));
  }
  optimizer.state().clear();
  for (auto& [key, state] : states) optimizer.state()[key] = std::move(state);
}

void write(Optimizer& optimizer, const Json& description, const TensorMap& tensors, Lbfgs) {
  check_groups(optimizer, description, Lbfgs::kName);
  write_lbfgs(static_cast<torch::optim::LBFGS&>(optimizer), description, tensors);
}

}  // namespace

OptimizerState read_optimizer(const Optimizer& optimizer) {
  return with_kind(optimizer, [&](auto kind) { return read(optimizer, kind); });
}

void write_optimizer(Optimizer& optimizer, const Json& description, const TensorMap& tensors,
                     const std::string& what) {
  with_kind(optimizer, [&](auto kind) {
    try {
      write(optimizer, description, tensors, kind);
    } catch (const Json::exception& error) {
      throw Error(ErrorKind::kCorrupt,
                  manta::str(what, "state.json is incomplete: ", error.what()));
    } catch (const Error& error) {
      throw Error(error.kind(), what + error.what());
    }
  });
}

}  // namespace manta::detail
