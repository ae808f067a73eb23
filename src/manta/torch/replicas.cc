#include <algorithm>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/replicas_internal.h"

namespace manta::train::detail {
namespace {

constexpr int64_t kChunkBytes = int64_t{64} << 20;

int64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return static_cast<int64_t>(hash);
}

// `tensor` is on the CPU, wherever the model is.
void allreduce(c10d::ProcessGroup& group, const torch::Tensor& tensor) {
  std::vector<torch::Tensor> tensors = {tensor};
  backend_for(group, tensor.device().type())->allreduce(tensors)->wait();
}

// Each worker's row, on every worker.
torch::Tensor gather_rows(const Replicas& replicas, const torch::Tensor& row) {
  torch::Tensor rows = torch::zeros({replicas.world_size, row.size(0)}, torch::kInt64);
  rows[replicas.rank].copy_(row);
  allreduce(replicas.group, rows);
  return rows;
}

std::vector<std::string> lines_of(const torch::Tensor& characters) {
  std::vector<std::string> lines(1);
  const int64_t* data = characters.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < characters.size(0) && data[i] != 0; ++i) {
    if (data[i] == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += static_cast<char>(data[i]);
    }
  }
  lines.pop_back();
  return lines;
}

[[noreturn]] void throw_difference(int rank, const std::vector<std::string>& theirs,
                                   const std::vector<std::string>& first) {
  auto [a, b] = std::mismatch(theirs.begin(), theirs.end(), first.begin(), first.end());
  throw Error(
      ErrorKind::kInvalidArgument,
      manta::str("prepare_model: the model on rank ", rank, " differs from rank 0's: it has ",
                 a == theirs.end() ? "no more parameters" : *a, " where rank 0 has ",
                 b == first.end() ? "no more" : *b, " (", theirs.size(), " and ", first.size(),
                 " parameters and buffers in all). Every worker must build the same model"));
}

torch::Tensor bytes_of(const torch::Tensor& tensor) {
  return tensor.contiguous().view({-1}).view(torch::kUInt8);
}

}  // namespace

std::vector<std::string> describe_model(const torch::nn::Module& module) {
  std::vector<std::string> lines;
  auto add = [&](const char* what, const std::string& name, const torch::Tensor& tensor) {
    lines.push_back(manta::str(what, " '", name, "' ", tensor.dtype().name(), tensor.sizes(),
                               tensor.requires_grad() ? "" : " without gradient"));
  };
  for (const auto& item : module.named_parameters()) add("parameter", item.key(), item.value());
  for (const auto& item : module.named_buffers()) add("buffer", item.key(), item.value());
  return lines;
}

void check_equal_models(const Replicas& replicas, const std::vector<std::string>& description) {
  std::string text;
  for (const std::string& line : description) text += line + '\n';
  int64_t size = static_cast<int64_t>(text.size());
  torch::Tensor sums = gather_rows(replicas, torch::tensor({size, hash_of(text)}, torch::kInt64));
  if (torch::equal(sums, sums[0].expand_as(sums))) return;

  // Every worker gets here, because all of them have the same sums.
  torch::Tensor row = torch::zeros({sums.select(1, 0).max().item<int64_t>()}, torch::kInt64);
  std::copy(text.begin(), text.end(), row.data_ptr<int64_t>());
  torch::Tensor texts = gather_rows(replicas, row);
  for (int rank = 1; rank < replicas.world_size; ++rank) {
    if (torch::equal(texts[rank], texts[0])) continue;
    throw_difference(rank, lines_of(texts[rank]), lines_of(texts[0]));
  }
}

void check_equal_steps(const std::vector<int64_t>& steps) {
  auto first = std::find_if(steps.begin(), steps.end(), [](int64_t step) { return step >= 0; });
  auto other =
      std::find_if(first, steps.end(), [&](int64_t step) { return step >= 0 && step != *first; });
  if (other == steps.end()) return;
  throw Error(ErrorKind::kInvalidArgument,
              manta::str("the ranks are at different steps: rank ", other - steps.begin(),
                         " at step ", *other, ", rank ", first - steps.begin(), " at step ", *first,
                         " of their epoch; between two exchanges every rank must take the same ",
                         "number of batches"));
}

void compare_steps(const Replicas& replicas, int64_t step) {
  torch::NoGradGuard no_grad;
  torch::Tensor steps = gather_rows(replicas, torch::tensor({step}, torch::kInt64));
  const int64_t* data = steps.const_data_ptr<int64_t>();
  check_equal_steps({data, data + steps.numel()});
}

void broadcast_tensors(const Replicas& replicas, const std::vector<torch::Tensor>& tensors) {
  torch::NoGradGuard no_grad;
  size_t next = 0;
  while (next < tensors.size()) {
    size_t first = next;
    int64_t size = 0;
    do {
      size += static_cast<int64_t>(tensors[next++].nbytes());
    } while (next < tensors.size() && tensors[next].device() == tensors[first].device() &&
             size + static_cast<int64_t>(tensors[next].nbytes()) <= kChunkBytes);
    if (size == 0) continue;

    auto flat = torch::empty({size}, tensors[first].options().dtype(torch::kUInt8));
    auto for_each_slice = [&](auto function) {
      int64_t offset = 0;
      for (size_t i = first; i < next; ++i) {
        int64_t bytes = static_cast<int64_t>(tensors[i].nbytes());
        if (bytes > 0) function(tensors[i].variable_data(), flat.narrow(0, offset, bytes));
        offset += bytes;
      }
    };
    if (replicas.rank == 0) {
      for_each_slice(
          [](torch::Tensor tensor, torch::Tensor slice) { slice.copy_(bytes_of(tensor)); });
    }
    std::vector<torch::Tensor> sent = {flat};
    backend_for(replicas.group, flat.device().type())->broadcast(sent)->wait();
    if (replicas.rank != 0) {
      for_each_slice([](torch::Tensor tensor, torch::Tensor slice) {
        // A slice of bytes may be unaligned for the tensor's type.
        tensor.copy_(slice.clone().view(tensor.scalar_type()).view(tensor.sizes()));
      });
    }
  }
}

}  // namespace manta::train::detail
