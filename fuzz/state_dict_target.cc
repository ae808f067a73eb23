// A state_dict of Python's: first the pickle inside, then the whole file.

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <manta/torch/state_dict.h>
#include <manta/torch/unpickle_internal.h>

#include <fstream>
#include <iterator>

#include "target.h"

namespace manta::fuzz::state_dict {

void run(std::string_view input) {
  if (input.empty()) return;
  bool is_pickle = input[0] == 'p';
  input.remove_prefix(1);
  if (is_pickle) {
    detail::unpickle(input, "'input'", [](const std::string&) { return true; });
    return;
  }
  for (const auto& [name, tensor] : read_state_dict(scratch_file("model.pt", input))) {
    if (tensor.numel() > 0) tensor.as_strided({1}, {1}, tensor.storage_offset()).clone();
  }
}

std::vector<std::string> seeds() {
  std::string path = scratch_folder() + "/seed.pt";
  write_state_dict(path, {{"weight", at::arange(6, at::kFloat).reshape({2, 3})},
                          {"small", at::zeros({3}, at::kFloat8_e5m2)}});
  std::ifstream in(path, std::ios::binary);
  std::string file(std::istreambuf_iterator<char>(in), {});
  size_t begin = file.find(
      "\x80\x02"
      "ccollections");
  size_t end = file.find("PK", begin);
  return {"f" + file, "p" + file.substr(begin, end - begin)};
}

}  // namespace manta::fuzz::state_dict
