// A file of tensors.

#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <manta/torch/safetensors.h>

#include <algorithm>

#include "target.h"

namespace manta::fuzz::safetensors {

void run(std::string_view input) {
  auto file = read_safetensors(scratch_file("model.safetensors", input));
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.numel() > 0) tensor.flatten()[tensor.numel() - 1].clone();  // reads the last byte
  }
}

std::vector<std::string> seeds() {
  auto image = make_safetensors({{"weight", at::arange(6, at::kFloat).reshape({2, 3})},
                                 {"steps", at::scalar_tensor(int64_t{5}, at::kLong)},
                                 {"empty", at::zeros({0, 4}, at::kByte)}},
                                {{"format", "pt"}});
  std::string bytes;
  for (const auto& part : image.parts()) {
    bytes.append(static_cast<const char*>(part.data), part.size);
  }
  return {bytes};
}

}  // namespace manta::fuzz::safetensors
