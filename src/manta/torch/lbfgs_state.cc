#include <deque>
#include <memory>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/json_number_internal.h"
#include "manta/torch/lbfgs_state_internal.h"

namespace manta::detail {
namespace {

using torch::optim::LBFGSOptions;
using torch::optim::LBFGSParamState;
using LbfgsTensors = std::map<std::string, torch::Tensor>;

constexpr int64_t kMaxHistory = int64_t{1} << 20;

Json encode_lbfgs(const LBFGSOptions& options) {
  return {{"lr", encode_number(options.lr())},
          {"max_iter", options.max_iter()},
          {"max_eval", options.max_eval() ? Json(*options.max_eval()) : Json()},
          {"tolerance_grad", encode_number(options.tolerance_grad())},
          {"tolerance_change", encode_number(options.tolerance_change())},
          {"history_size", options.history_size()},
          {"line_search_fn", options.line_search_fn() ? Json(*options.line_search_fn()) : Json()}};
}

double lbfgs_number(const Json& object, const char* name) {
  auto number = decode_number(object.at(name));
  if (number) return *number;
  throw Error(ErrorKind::kCorrupt,
              manta::str("state.json has ", short_text(object.at(name)), " as ", name));
}

void decode_lbfgs(const Json& stored, LBFGSOptions& options) {
  JsonFields fields(stored, std::string("state.json"), "options.");
  options.lr(lbfgs_number(stored, "lr"));
  options.max_iter(fields.integer("max_iter", 0, INT64_MAX));
  options.max_eval(std::nullopt);
  if (!stored.at("max_eval").is_null()) options.max_eval(fields.integer("max_eval", 0, INT64_MAX));
  options.tolerance_grad(lbfgs_number(stored, "tolerance_grad"));
  options.tolerance_change(lbfgs_number(stored, "tolerance_change"));
  options.history_size(fields.integer("history_size", 0, kMaxHistory));
  options.line_search_fn(std::nullopt);
  if (!stored.at("line_search_fn").is_null()) options.line_search_fn(fields.text("line_search_fn"));
}

class LbfgsReader {
 public:
  LbfgsReader(const LbfgsTensors& tensors, const torch::Tensor& like, int64_t numbers)
      : tensors_(tensors), like_(like), numbers_(numbers) {}

  // The tensor must have `numbers` numbers: as many as all parameters, or one.
  torch::Tensor take(const std::string& name, int64_t numbers) const {
    auto found = tensors_.find("0." + name);
    if (found == tensors_.end()) {
      throw Error(ErrorKind::kCorrupt, manta::str("tensor '0.", name, "' is missing"));
    }
    if (found->second.numel() != numbers) {
      throw Error(ErrorKind::kInvalidArgument,
                  manta::str("'0.", name, "' has ", found->second.numel(),
                             " numbers, the parameters need ", numbers));
    }
    return found->second.to(like_.options().dtype(found->second.scalar_type()), false, true);
  }
  torch::Tensor flat(const std::string& name) const { return take(name, numbers_); }
  template <class List>
  List list(const std::string& name, int64_t count, bool is_flat) const {
    List list;
    for (int64_t i = 0; i < count; ++i) {
      list.push_back(take(manta::str(name, ".", i), is_flat ? numbers_ : 1));
    }
    return list;
  }

 private:
  const LbfgsTensors& tensors_;
  torch::Tensor like_;
  int64_t numbers_;
};

}  // namespace

OptimizerState read_lbfgs(const torch::optim::LBFGS& optimizer) {
  OptimizerState result;
  const auto& group = optimizer.param_groups().at(0);
  Json states = Json::object();
  auto found = group.params().empty()
                   ? optimizer.state().end()
                   : optimizer.state().find(group.params()[0].unsafeGetTensorImpl());
  if (found != optimizer.state().end()) {
    const auto& state = static_cast<const LBFGSParamState&>(*found->second);
    auto add = [&](const std::string& name, const torch::Tensor& tensor) {
      if (tensor.defined()) result.tensors.push_back({"0." + name, tensor.detach()});
    };
    auto add_list = [&](const char* name, const auto& list) {
      for (size_t i = 0; i < list.size(); ++i) add(manta::str(name, ".", i), list[i]);
    };
    add("d", state.d());
    add("H_diag", state.H_diag());
    add("prev_flat_grad", state.prev_flat_grad());
    add_list("old_dirs", state.old_dirs());
    add_list("old_stps", state.old_stps());
    add_list("ro", state.ro());
    states["0"] = {
        {"func_evals", state.func_evals()},   {"n_iter", state.n_iter()},
        {"t", encode_number(state.t())},      {"prev_loss", encode_number(state.prev_loss())},
        {"history", state.old_dirs().size()}, {"started", state.d().defined()}};
  }
  result.description = {
      {"type", "LBFGS"},
      {"groups",
       {{{"params", group.params().size()},
         {"options", encode_lbfgs(static_cast<const LBFGSOptions&>(group.options()))}}}},
      {"state", states}};
  return result;
}

void write_lbfgs(torch::optim::LBFGS& optimizer, const Json& description,
                 const LbfgsTensors& tensors) {
  torch::NoGradGuard no_grad;
  auto& group = optimizer.param_groups().at(0);
  auto options = std::make_unique<LBFGSOptions>(static_cast<LBFGSOptions&>(group.options()));
  decode_lbfgs(description.at("groups").at(0).at("options"), *options);
  std::unique_ptr<LBFGSParamState> state;
  auto stored = description.at("state").find("0");
  if (stored != description.at("state").end() && !group.params().empty()) {
    JsonFields fields(*stored, std::string("state.json"), "0.");
    int64_t numbers = 0;
    for (const torch::Tensor& parameter : group.params()) numbers += parameter.numel();
    LbfgsReader reader(tensors, group.params()[0].detach(), numbers);
    int64_t history = fields.integer("history", 0, kMaxHistory);
    state = std::make_unique<LBFGSParamState>();
    state->func_evals(fields.integer("func_evals", 0, INT64_MAX));
    state->n_iter(fields.integer("n_iter", 0, INT64_MAX));
    state->t(lbfgs_number(*stored, "t"));
    state->prev_loss(lbfgs_number(*stored, "prev_loss"));
    if (fields.boolean("started")) {
      state->d(reader.flat("d"));
      state->H_diag(reader.take("H_diag", 1));
      state->prev_flat_grad(reader.flat("prev_flat_grad"));
    }
    state->old_dirs(reader.list<std::deque<torch::Tensor>>("old_dirs", history, true));
    state->old_stps(reader.list<std::deque<torch::Tensor>>("old_stps", history, true));
    state->ro(reader.list<std::deque<torch::Tensor>>("ro", history, false));
  }
  group.set_options(std::move(options));
  optimizer.state().clear();
  if (state) optimizer.state()[group.params()[0].unsafeGetTensorImpl()] = std::move(state);
}

}  // namespace manta::detail
