#include "manta/torch/tensor_bytes.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/train/tensor_file_internal.h"

namespace manta {
namespace {

struct NamedType {
  const char* name;
  at::ScalarType type;
};
constexpr NamedType kByteTypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
    {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
    {"U8", at::kByte},    {"BOOL", at::kBool}};

}  // namespace

TensorBytes tensor_bytes(const at::Tensor& tensor) {
  TensorBytes result;
  result.dtype.clear();
  for (const NamedType& each : kByteTypes)
    if (each.type == tensor.scalar_type()) result.dtype = each.name;
  if (result.dtype.empty())
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("tensor_bytes: there is no name for the type ", tensor.dtype().name(),
                           "; convert the tensor, e.g. .to(torch::kFloat32)"));
  at::Tensor flat = tensor.detach().cpu().contiguous();
  result.shape = flat.sizes().vec();
  result.bytes.assign(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
  return result;
}

at::Tensor to_tensor(const TensorBytes& bytes) {
  train::tensor_file({{"tensor", bytes}});  // throws if the sizes do not match
  for (const NamedType& each : kByteTypes) {
    if (each.name != bytes.dtype) continue;
    at::Tensor tensor = at::empty(bytes.shape, at::TensorOptions().dtype(each.type));
    std::memcpy(tensor.data_ptr(), bytes.bytes.data(), bytes.bytes.size());
    return tensor;
  }
  throw Error(ErrorKind::kInvalidArgument, manta::str("no dtype '", bytes.dtype, "'"));
}

}  // namespace manta
