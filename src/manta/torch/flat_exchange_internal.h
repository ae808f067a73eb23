#pragma once

#include <torch/types.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace manta::train::detail {

/// All gradients of a model on the CPU in one buffer, exchanged in one operation.
///
/// The buffer holds floats: gradients (also those of narrower types), for each parameter the number
/// of workers that have a gradient, each worker's step unless the backend compares steps itself,
/// and rank 0's buffers, to which the other workers add zeros. Buffers that are not floats travel
/// as 16-bit numbers, which floats hold exactly. Gradients in double precision have a separate
/// buffer.
class FlatExchange {
 public:
  FlatExchange(std::vector<torch::Tensor> parameters, std::vector<torch::Tensor> buffers,
               c10::intrusive_ptr<c10d::Backend> backend, int rank, int world_size);

  /// Collective. A parameter without a gradient on any worker stays without one; if only some
  /// workers have a gradient, those of the others count as zero. Throws Error(kInvalidArgument) if
  /// the workers are at different steps; -1 is unknown.
  void run(int64_t step);

 private:
  struct Slot {
    torch::Tensor tensor;  ///< The parameter or the buffer.
    bool is_double = false;
    int64_t offset = 0;
    int64_t count = 0;
  };

  void pack_gradient(const Slot& slot, float& used);
  void unpack_gradient(const Slot& slot, float used);
  void pack_buffer(const Slot& slot);
  void unpack_buffer(const Slot& slot);
  void pack_step(int64_t step);
  void check_steps() const;
  torch::Tensor slice(const Slot& slot) const;

  std::vector<Slot> parameters_;
  std::vector<Slot> buffers_;
  torch::Tensor floats_;
  torch::Tensor doubles_;
  int64_t used_offset_ = 0;
  int64_t steps_offset_ = 0;
  int64_t buffers_offset_ = 0;  ///< The buffers are at the end.
  c10::intrusive_ptr<c10d::Backend> backend_;
  int rank_;
  int world_size_;
};

}  // namespace manta::train::detail
