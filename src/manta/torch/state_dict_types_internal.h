#pragma once

#include <c10/core/ScalarType.h>

#include <array>

namespace manta::detail {

/// Python's name of an element type, and the class of storages for it; null for types without such
/// a class: those are saved as bytes, with the type next to them.
struct StateDictType {
  c10::ScalarType type;
  const char* dtype;
  const char* storage;
};

inline constexpr std::array<StateDictType, 19> kStateDictTypes{{
    {c10::ScalarType::Float, "float32", "FloatStorage"},
    {c10::ScalarType::Double, "float64", "DoubleStorage"},
    {c10::ScalarType::Half, "float16", "HalfStorage"},
    {c10::ScalarType::BFloat16, "bfloat16", "BFloat16Storage"},
    {c10::ScalarType::Long, "int64", "LongStorage"},
    {c10::ScalarType::Int, "int32", "IntStorage"},
    {c10::ScalarType::Short, "int16", "ShortStorage"},
    {c10::ScalarType::Char, "int8", "CharStorage"},
    {c10::ScalarType::Byte, "uint8", "ByteStorage"},
    {c10::ScalarType::Bool, "bool", "BoolStorage"},
    {c10::ScalarType::ComplexFloat, "complex64", "ComplexFloatStorage"},
    {c10::ScalarType::ComplexDouble, "complex128", "ComplexDoubleStorage"},
    {c10::ScalarType::Float8_e5m2, "float8_e5m2", nullptr},
    {c10::ScalarType::Float8_e4m3fn, "float8_e4m3fn", nullptr},
    {c10::ScalarType::Float8_e5m2fnuz, "float8_e5m2fnuz", nullptr},
    {c10::ScalarType::Float8_e4m3fnuz, "float8_e4m3fnuz", nullptr},
    {c10::ScalarType::UInt16, "uint16", nullptr},
    {c10::ScalarType::UInt32, "uint32", nullptr},
    {c10::ScalarType::UInt64, "uint64", nullptr},
}};

}  // namespace manta::detail
