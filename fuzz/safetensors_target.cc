// A file of tensors.

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
  auto image = make_safetensors({{"weight", torch::arange(6, torch::kFloat32).reshape({2, 3})},
                                 {"steps", torch::tensor(int64_t{5})},
                                 {"empty", torch::zeros({0, 4}, torch::kUInt8)}},
                                {{"format", "pt"}});
  std::string bytes;
  for (const auto& part : image.parts()) {
    bytes.append(static_cast<const char*>(part.data), part.size);
  }
  return {bytes};
}

}  // namespace manta::fuzz::safetensors
