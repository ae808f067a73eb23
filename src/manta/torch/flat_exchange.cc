#include <algorithm>
#include <cstring>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/flat_exchange_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/replicas_internal.h"

namespace manta::train::detail {
namespace {

// Complex numbers as pairs of real ones.
torch::Tensor as_real(const torch::Tensor& tensor) {
  return tensor.is_complex() ? torch::view_as_real(tensor) : tensor;
}

bool is_plain(const torch::Tensor& gradient, bool is_double) {
  return gradient.scalar_type() == (is_double ? torch::kDouble : torch::kFloat) &&
         gradient.is_contiguous();
}

constexpr int kFloatsOfStep = 3;  // of 16 bits each, which floats hold exactly

// g++ 12 vectorises it only at -O3.
template <class T>
[[gnu::optimize("O3")]] void divide(const T* from, T* to, int64_t count, int divisor) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] / static_cast<T>(divisor);
}

}  // namespace

FlatExchange::FlatExchange(std::vector<torch::Tensor> parameters,
                           std::vector<torch::Tensor> buffers,
                           c10::intrusive_ptr<c10d::Backend> backend, int rank, int world_size)
    : backend_(std::move(backend)), rank_(rank), world_size_(world_size) {
  int64_t floats = 0;
  int64_t doubles = 0;
  for (torch::Tensor& parameter : parameters) {
    bool is_double = as_real(parameter.detach()).scalar_type() == torch::kDouble;
    int64_t count = parameter.numel() * (parameter.is_complex() ? 2 : 1);
    int64_t& end = is_double ? doubles : floats;
    parameters_.push_back({std::move(parameter), is_double, end, count});
    end += count;
  }
  used_offset_ = floats;
  floats += static_cast<int64_t>(parameters_.size());
  steps_offset_ = floats;
  if (!compares_steps(*backend_)) floats += kFloatsOfStep * world_size_;
  buffers_offset_ = floats;
  for (torch::Tensor& buffer : buffers) {
    bool is_float = buffer.scalar_type() == torch::kFloat;
    int64_t count = is_float ? buffer.numel() : static_cast<int64_t>((buffer.nbytes() + 1) / 2);
    buffers_.push_back({std::move(buffer), false, floats, count});
    floats += count;
  }
  floats_ = torch::zeros({floats}, torch::kFloat);
  if (doubles > 0) doubles_ = torch::zeros({doubles}, torch::kDouble);
}

void FlatExchange::run(int64_t step) {
  torch::NoGradGuard no_grad;
  float* used = floats_.data_ptr<float>() + used_offset_;
  for (size_t i = 0; i < parameters_.size(); ++i) pack_gradient(parameters_[i], used[i]);
  pack_step(step);
  if (rank_ == 0) {
    for (const Slot& slot : buffers_) pack_buffer(slot);
  } else {
    float* zeros = floats_.data_ptr<float>() + buffers_offset_;
    std::fill(zeros, floats_.data_ptr<float>() + floats_.numel(), 0.0f);
  }

  std::vector<torch::Tensor> sent = {floats_};
  backend_->allreduce(sent)->wait();
  check_steps();
  if (doubles_.defined()) {
    sent = {doubles_};
    backend_->allreduce(sent)->wait();
  }

  for (size_t i = 0; i < parameters_.size(); ++i) unpack_gradient(parameters_[i], used[i]);
  if (rank_ == 0) return;
  for (const Slot& slot : buffers_) unpack_buffer(slot);
}

// Each worker has its own place, in which the sum leaves its step unchanged.
void FlatExchange::pack_step(int64_t step) {
  float* steps = floats_.data_ptr<float>() + steps_offset_;
  std::fill(steps, floats_.data_ptr<float>() + buffers_offset_, 0.0f);
  if (steps_offset_ == buffers_offset_) return;
  auto number = static_cast<uint64_t>(step + 1);
  for (int i = 0; i < kFloatsOfStep; ++i) {
    steps[rank_ * kFloatsOfStep + i] = static_cast<float>((number >> (16 * i)) & 0xffff);
  }
}

void FlatExchange::check_steps() const {
  if (steps_offset_ == buffers_offset_) return;
  const float* floats = floats_.const_data_ptr<float>() + steps_offset_;
  std::vector<int64_t> steps;
  for (int rank = 0; rank < world_size_; ++rank) {
    int64_t number = 0;
    for (int i = 0; i < kFloatsOfStep; ++i) {
      number += static_cast<int64_t>(floats[rank * kFloatsOfStep + i]) << (16 * i);
    }
    steps.push_back(number - 1);
  }
  check_equal_steps(steps);
}

torch::Tensor FlatExchange::slice(const Slot& slot) const {
  return (slot.is_double ? doubles_ : floats_).narrow(0, slot.offset, slot.count);
}

void FlatExchange::pack_gradient(const Slot& slot, float& used) {
  const torch::Tensor& gradient = slot.tensor.grad();
  used = gradient.defined() ? 1 : 0;
  if (!gradient.defined()) {
    slice(slot).zero_();
  } else if (gradient.layout() != torch::kStrided) {
    throw Error(
        ErrorKind::kInvalidArgument,
        manta::str("backward: a parameter of shape ", slot.tensor.sizes(),
                   " has a sparse gradient, which cannot be averaged over the workers; make its "
                   "module with sparse(false)"));
  } else if (is_plain(gradient, slot.is_double)) {
    auto* to = static_cast<char*>((slot.is_double ? doubles_ : floats_).data_ptr());
    size_t width = slot.is_double ? sizeof(double) : sizeof(float);
    std::memcpy(to + static_cast<size_t>(slot.offset) * width, gradient.const_data_ptr(),
                static_cast<size_t>(slot.count) * width);
  } else {
    torch::Tensor values = as_real(gradient);
    slice(slot).view(values.sizes()).copy_(values);
  }
}

void FlatExchange::unpack_gradient(const Slot& slot, float used) {
  if (used == 0) return;
  torch::Tensor& gradient = slot.tensor.mutable_grad();
  if (!gradient.defined()) gradient = torch::zeros_like(slot.tensor);
  if (!is_plain(gradient, slot.is_double)) {
    torch::Tensor values = as_real(gradient);
    values.copy_(slice(slot).div(world_size_).view(values.sizes()));
  } else if (slot.is_double) {
    divide(doubles_.const_data_ptr<double>() + slot.offset, gradient.data_ptr<double>(), slot.count,
           world_size_);
  } else {
    divide(floats_.const_data_ptr<float>() + slot.offset, gradient.data_ptr<float>(), slot.count,
           world_size_);
  }
}

void FlatExchange::pack_buffer(const Slot& slot) {
  if (slot.tensor.numel() == 0) return;
  float* to = floats_.data_ptr<float>() + slot.offset;
  torch::Tensor buffer = slot.tensor.contiguous();
  if (buffer.scalar_type() == torch::kFloat) {
    std::memcpy(to, buffer.const_data_ptr(), buffer.nbytes());
    return;
  }
  const auto* from = static_cast<const char*>(buffer.const_data_ptr());
  for (size_t i = 0; i < buffer.nbytes(); i += 2) {
    uint16_t part = 0;
    std::memcpy(&part, from + i, std::min<size_t>(2, buffer.nbytes() - i));
    to[i / 2] = part;
  }
}

void FlatExchange::unpack_buffer(const Slot& slot) {
  if (slot.tensor.numel() == 0) return;
  const float* from = floats_.const_data_ptr<float>() + slot.offset;
  // Bypasses autograd, so that a graph that is kept for another backward stays valid.
  torch::Tensor values = slot.tensor;
  if (!values.is_contiguous()) values = torch::empty(values.sizes(), values.options());
  auto* to = static_cast<char*>(values.mutable_data_ptr());
  if (values.scalar_type() == torch::kFloat) {
    std::memcpy(to, from, values.nbytes());
  } else {
    for (size_t i = 0; i < values.nbytes(); i += 2) {
      auto part = static_cast<uint16_t>(from[i / 2]);
      std::memcpy(to + i, &part, std::min<size_t>(2, values.nbytes() - i));
    }
  }
  if (!values.is_same(slot.tensor)) slot.tensor.variable_data().copy_(values);
}

}  // namespace manta::train::detail
