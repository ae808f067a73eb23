// expect: a model whose forward takes one to eight tensors and returns a tensor
// expect: a model whose forward takes one to eight tensors and returns a tensor
// expect: a module's holder (TORCH_MODULE) or a shared_ptr to a module, not a module itself
#include <manta/torch/forward_inputs.h>

#include <memory>
#include <tuple>

// The header needs no torch: anything can be the tensor.
struct Tensor {};
struct OfText {
  Tensor forward(const char* text);
};
struct OfTwo {
  Tensor forward(const Tensor& a, Tensor b);
};
struct ReturnsTwo {
  std::tuple<Tensor, Tensor> forward(const Tensor& inputs);
};

static_assert(manta::detail::require_forward<std::shared_ptr<OfTwo>, Tensor>());
static_assert(manta::detail::forward_takes<std::shared_ptr<OfTwo>, Tensor, 2>);
static_assert(!manta::detail::forward_takes<std::shared_ptr<OfTwo>, Tensor, 1>);

void f() {
  manta::detail::require_forward<std::shared_ptr<OfText>, Tensor>();
  manta::detail::require_forward<std::shared_ptr<ReturnsTwo>, Tensor>();
  manta::detail::require_forward<OfTwo, Tensor>();
}
