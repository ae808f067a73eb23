#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace manta {

/// The type of a buffer's elements. Buffers of kComplex64, kComplex128 and kOther can be moved
/// between ranks, but not reduced.
enum class ElementType : uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kUInt8,
  kInt16,
  kInt32,
  kInt64,
  kBool,
  kComplex64,
  kComplex128,
  kOther,
};

enum class ReduceKind : uint8_t {
  kSum,
  kAverage,  ///< The sum divided by the number of ranks; integers round towards zero.
  kProduct,
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor,
};

std::string_view element_name(ElementType type);
std::string_view reduce_name(ReduceKind kind);

/// Computes output[i] = sources[0][i] op sources[1][i] op ..., in that order, so that the result
/// depends only on the inputs. `output` may be one of the sources, but must not overlap otherwise.
/// 16-bit floats are added up in 32 bits and rounded once.
using ReduceFunction = void (*)(void* output, const void* const* sources, int count,
                                size_t elements);

/// The function for a combination, or nullptr where the operation has no meaning for the type: bit
/// operations on floats, any operation on complex numbers. On booleans, sum and maximum are "or",
/// product and minimum "and"; they have no average.
ReduceFunction find_reduce(ElementType type, ReduceKind kind);

}  // namespace manta
