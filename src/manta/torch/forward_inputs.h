#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

// Includes nothing of torch, so that its error messages can be tested in a second: the tensor type
// is a parameter.
namespace manta::detail {

/// The maximum number of tensors that a predictor passes to a model.
inline constexpr size_t kMaxInputs = 8;

template <class Tensor, size_t>
using InputOf = const Tensor&;

template <class Model, class Tensor, class Indices>
inline constexpr bool takes_inputs = false;
template <class Model, class Tensor, size_t... i>
inline constexpr bool takes_inputs<Model, Tensor, std::index_sequence<i...>> =
    requires(Model& model, InputOf<Tensor, i>... inputs) {
  { model->forward(inputs...) } -> std::convertible_to<Tensor>;
};

/// Whether `model->forward` takes `count` tensors and returns one.
template <class Model, class Tensor, size_t count>
inline constexpr bool forward_takes = takes_inputs<Model, Tensor, std::make_index_sequence<count>>;

template <class Model, class Tensor, size_t... i>
constexpr bool forward_takes_some(std::index_sequence<i...>) {
  return (forward_takes<Model, Tensor, i + 1> || ...);
}

template <class Model>
inline constexpr bool is_handle = requires(Model& model) {
  model.operator->();
};

/// Gives one message instead of a page of template errors. True if the model fits.
template <class Model, class Tensor>
constexpr bool require_forward() {
  static_assert(is_handle<Model>,
                "manta: TorchPredictor takes a module's holder (TORCH_MODULE) or a shared_ptr to a "
                "module, not a module itself");
  if constexpr (is_handle<Model>) {
    constexpr bool kFits =
        forward_takes_some<Model, Tensor>(std::make_index_sequence<kMaxInputs>());
    static_assert(kFits,
                  "manta: TorchPredictor needs a model whose forward takes one to eight tensors "
                  "and returns a tensor. For others, load the weights with "
                  "TorchCheckpoint::load_model and call the model yourself");
    return kFits;
  } else {
    return false;
  }
}

}  // namespace manta::detail
