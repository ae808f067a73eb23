// g++ 12 vectorises loops like these at -O3 only.
#pragma GCC optimize("O3")

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "manta/io/reduce_internal.h"

namespace manta {
namespace {

/// Accumulates this many elements at a time, so that sums stay in the first-level cache.
constexpr size_t kBlock = 1024;

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// Conversions without branches, so that loops over them can be vectorised.
inline float widen(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline void narrow(float value, BFloat16& out) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
  bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  out.bits = static_cast<uint16_t>(is_nan ? 0x7fc0 : rounded);
}

inline float widen(Half value) {
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fff) << 13;
  // 2^112 is the distance of the two formats' exponents; the product is exact, also for subnormals.
  float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000 : 0;  // infinity and NaN
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

inline void narrow(float value, Half& out) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Adding 0.5 aligns the last bit of a subnormal half with the last bit of the sum.
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  uint32_t small = magnitude < 0x38800000 ? subnormal : normal;
  out.bits = static_cast<uint16_t>(sign | (magnitude >= 0x477ff000 ? special : small));
}

template <class T>
inline T widen(T value) {
  return value;
}
template <class T>
inline void narrow(T value, T& out) {
  out = value;
}

// Integers wrap around as in torch; signed overflow would be undefined.
template <class T>
inline T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}
template <class T>
inline T wrapping_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping_add(a, b);
  }
};
struct Product {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping_multiply(a, b);
  }
};
// A NaN on any rank stays one, as in torch.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

/// T is the stored type, Op works on the type that T widens to; kDivide: divides by the number of
/// sources at the end.
template <class T, class Op, bool kDivide = false>
void reduce(void* output, const void* const* sources, int count, size_t elements) {
  using Wide = decltype(widen(T()));
  Wide sums[kBlock];
  Op op;
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    size_t n = std::min(kBlock, elements - begin);
    auto* first = static_cast<const T*>(sources[0]) + begin;
    if (count > 1) {
      auto* second = static_cast<const T*>(sources[1]) + begin;
      for (size_t i = 0; i < n; ++i) sums[i] = op(widen(first[i]), widen(second[i]));
    } else {
      for (size_t i = 0; i < n; ++i) sums[i] = widen(first[i]);
    }
    for (int source = 2; source < count; ++source) {
      auto* next = static_cast<const T*>(sources[source]) + begin;
      for (size_t i = 0; i < n; ++i) sums[i] = op(sums[i], widen(next[i]));
    }
    if constexpr (kDivide) {
      auto divisor = static_cast<Wide>(count);
      for (size_t i = 0; i < n; ++i) sums[i] = static_cast<Wide>(sums[i] / divisor);
    }
    auto* out = static_cast<T*>(output) + begin;
    for (size_t i = 0; i < n; ++i) narrow(sums[i], out[i]);
  }
}

template <class T>
ReduceFunction find_float(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return reduce<T, Sum>;
    case ReduceKind::kAverage:
      return reduce<T, Sum, true>;
    case ReduceKind::kProduct:
      return reduce<T, Product>;
    case ReduceKind::kMin:
      return reduce<T, Min>;
    case ReduceKind::kMax:
      return reduce<T, Max>;
    default:
      return nullptr;
  }
}

template <class T>
ReduceFunction find_integer(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kBitAnd:
      return reduce<T, And>;
    case ReduceKind::kBitOr:
      return reduce<T, Or>;
    case ReduceKind::kBitXor:
      return reduce<T, Xor>;
    default:
      return find_float<T>(kind);
  }
}

// Stored as the bytes 0 and 1.
ReduceFunction find_bool(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kMax:
    case ReduceKind::kBitOr:
      return reduce<uint8_t, Or>;
    case ReduceKind::kProduct:
    case ReduceKind::kMin:
    case ReduceKind::kBitAnd:
      return reduce<uint8_t, And>;
    case ReduceKind::kBitXor:
      return reduce<uint8_t, Xor>;
    default:
      return nullptr;
  }
}

}  // namespace

std::string_view element_name(ElementType type) {
  constexpr std::string_view kNames[] = {
      "float", "double", "half", "bfloat16",  "int8",       "uint8",       "int16",
      "int32", "int64",  "bool", "complex64", "complex128", "another type"};
  auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "an unknown type";
}

std::string_view reduce_name(ReduceKind kind) {
  constexpr std::string_view kNames[] = {"sum",     "average",     "product",    "minimum",
                                         "maximum", "bitwise and", "bitwise or", "bitwise xor"};
  auto index = static_cast<size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "unknown operation";
}

ReduceFunction find_reduce(ElementType type, ReduceKind kind) {
  switch (type) {
    case ElementType::kFloat32:
      return find_float<float>(kind);
    case ElementType::kFloat64:
      return find_float<double>(kind);
    case ElementType::kFloat16:
      return find_float<Half>(kind);
    case ElementType::kBFloat16:
      return find_float<BFloat16>(kind);
    case ElementType::kInt8:
      return find_integer<int8_t>(kind);
    case ElementType::kUInt8:
      return find_integer<uint8_t>(kind);
    case ElementType::kInt16:
      return find_integer<int16_t>(kind);
    case ElementType::kInt32:
      return find_integer<int32_t>(kind);
    case ElementType::kInt64:
      return find_integer<int64_t>(kind);
    case ElementType::kBool:
      return find_bool(kind);
    default:
      return nullptr;
  }
}

}  // namespace manta
