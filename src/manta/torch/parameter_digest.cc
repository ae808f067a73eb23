#include <algorithm>
#include <string>

#include "manta/base/error_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/torch/parameter_digest_internal.h"

namespace manta::detail {
namespace {

constexpr int64_t kSampleBytes = int64_t{1} << 20;
constexpr int64_t kRunBytes = 256;  // neighbours are cheap to read: a few lines of the cache

// Runs of neighbouring values at equal distances, about `share` of all of them.
torch::Tensor sample(const torch::Tensor& tensor, double share) {
  torch::Tensor flat = tensor.detach().contiguous().view({-1});
  int64_t size = flat.numel();
  int64_t run = std::max<int64_t>(1, kRunBytes / static_cast<int64_t>(flat.element_size()));
  int64_t wanted = static_cast<int64_t>(static_cast<double>(size) * share) / run;
  int64_t runs = std::max<int64_t>(1, wanted);
  if (share < 1 && runs * run < size) {
    int64_t distance = runs > 1 ? (size - run) / (runs - 1) : 0;
    flat = flat.as_strided({runs, run}, {distance, 1}, flat.storage_offset());
  }
  return flat.cpu().contiguous();
}

}  // namespace

uint64_t parameter_digest(const std::vector<NamedTensor>& parameters) {
  int64_t bytes = 0;
  for (const NamedTensor& item : parameters) bytes += static_cast<int64_t>(item.tensor.nbytes());
  double share = bytes <= kSampleBytes ? 1 : static_cast<double>(kSampleBytes) / bytes;
  Checksum checksum;
  for (const NamedTensor& item : parameters) {
    std::string shape = manta::str(item.name, item.tensor.sizes());
    checksum.add(shape.data(), shape.size());
    torch::Tensor values = sample(item.tensor, share);
    checksum.add(values.const_data_ptr(), values.nbytes());
  }
  return std::stoull(checksum.hex(), nullptr, 16);
}

}  // namespace manta::detail
