#pragma once

#include <torch/types.h>

namespace manta::train {

struct AutocastOptions {
  torch::DeviceType device = torch::kCPU;
  /// The type of matrix products and convolutions. bfloat16 has the range of float32 and needs no
  /// GradScaler; float16 has more digits and needs one.
  torch::ScalarType dtype = torch::kBFloat16;
  bool enabled = true;  ///< False: computes as usual, also inside another Autocast.
  bool cache = true;    ///< Keeps the converted weights until the outermost Autocast ends.
};

/// While it lives, operations of this thread compute in a narrower type where that is safe, as
/// Python's `with torch.autocast(...)`: matrix products and convolutions in `dtype`, losses and
/// sums in float32. Parameters stay as they are. Put the forward and the loss inside its scope, and
/// backward after it.
///
/// ```
/// torch::Tensor loss;
/// {
///   train::Autocast autocast;
///   loss = torch::mse_loss(model->forward(inputs), targets);
/// }
/// loss.backward();
/// ```
class [[nodiscard]] Autocast {
 public:
  /// Throws Error(kInvalidArgument) unless `dtype` is bfloat16 or float16.
  explicit Autocast(const AutocastOptions& options = {});
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  torch::DeviceType device_;
  bool was_enabled_;
  torch::ScalarType old_dtype_;
  bool cached_;
};

}  // namespace manta::train
