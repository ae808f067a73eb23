#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "manta/torch/data_parallel.h"

namespace manta::train {

namespace detail {
/// How the workers of this run keep their models equal. The first call joins the run's process
/// group. Outside a training loop there is one worker.
SyncOptions sync_options_of_run(const PrepareModelOptions& model);
}  // namespace detail

/// The run's process group, for the loop's own collectives; null if there is one worker.
c10::intrusive_ptr<c10d::ProcessGroup> get_process_group();

/// Makes a model data-parallel: every worker starts from rank 0's weights, and backward() averages
/// the gradients over the workers, each weighted by the rows of its last batch. Call it on every
/// worker with the same options; if there are several models, in the same order on every worker.
/// `model` is a torch::nn module, its holder, or a shared_ptr to one.
///
/// `prepare_model(model, {.sharded = true})` splits the model instead of copying it; give the
/// optimizer `model->parameters()` of what it returns.
template <class M>
requires std::is_base_of_v<torch::detail::ModuleHolderIndicator, M> DataParallel<M> prepare_model(
    M model, const PrepareModelOptions& options = {}) {
  return DataParallel<M>(std::move(model), detail::sync_options_of_run(options));
}
template <class M>
requires std::is_base_of_v<torch::nn::Module, M> DataParallel<M> prepare_model(
    std::shared_ptr<M> model, const PrepareModelOptions& options = {}) {
  return DataParallel<M>(std::move(model), detail::sync_options_of_run(options));
}
template <class M>
requires std::is_base_of_v<torch::nn::Module, M> DataParallel<M> prepare_model(
    M model, const PrepareModelOptions& options = {}) {
  return DataParallel<M>(std::make_shared<M>(std::move(model)),
                         detail::sync_options_of_run(options));
}

}  // namespace manta::train
