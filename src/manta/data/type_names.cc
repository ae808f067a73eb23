#include <arrow/api.h>

#include <charconv>
#include <map>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"

namespace manta::data {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;

const std::map<std::string, TypePtr>& plain_types() {
  using arrow::TimeUnit;
  static const std::map<std::string, TypePtr> types = [] {
    std::map<std::string, TypePtr> all = {{"bool", arrow::boolean()},
                                          {"int8", arrow::int8()},
                                          {"int16", arrow::int16()},
                                          {"int32", arrow::int32()},
                                          {"int64", arrow::int64()},
                                          {"uint8", arrow::uint8()},
                                          {"uint16", arrow::uint16()},
                                          {"uint32", arrow::uint32()},
                                          {"uint64", arrow::uint64()},
                                          {"float16", arrow::float16()},
                                          {"float32", arrow::float32()},
                                          {"float64", arrow::float64()},
                                          {"string", arrow::utf8()},
                                          {"large_string", arrow::large_utf8()},
                                          {"binary", arrow::binary()},
                                          {"large_binary", arrow::large_binary()},
                                          {"date32", arrow::date32()},
                                          {"date64", arrow::date64()},
                                          {"time32[s]", arrow::time32(TimeUnit::SECOND)},
                                          {"time32[ms]", arrow::time32(TimeUnit::MILLI)},
                                          {"time64[us]", arrow::time64(TimeUnit::MICRO)},
                                          {"time64[ns]", arrow::time64(TimeUnit::NANO)}};
    for (auto unit : TimeUnit::values()) {
      for (const TypePtr& type : {arrow::timestamp(unit), arrow::duration(unit)}) {
        all.emplace(type->ToString(), type);
      }
    }
    return all;
  }();
  return types;
}

// "timestamp[us, tz=Europe/Berlin]".
TypePtr zoned_type(const std::string& name) {
  for (auto unit : arrow::TimeUnit::values()) {
    std::string prefix = arrow::timestamp(unit)->ToString();
    prefix.back() = ',';
    prefix += " tz=";
    if (name.starts_with(prefix) && name.ends_with("]") && name.size() > prefix.size() + 1) {
      return arrow::timestamp(unit, name.substr(prefix.size(), name.size() - prefix.size() - 1));
    }
  }
  return nullptr;
}

// "decimal128(10, 2)".
TypePtr decimal_type(const std::string& name) {
  for (auto id : {arrow::Type::DECIMAL128, arrow::Type::DECIMAL256}) {
    std::string prefix = id == arrow::Type::DECIMAL128 ? "decimal128(" : "decimal256(";
    if (!name.starts_with(prefix) || !name.ends_with(")")) continue;
    const char* end = name.data() + name.size() - 1;
    int32_t precision = 0, scale = 0;
    auto first = std::from_chars(name.data() + prefix.size(), end, precision);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ',') return nullptr;
    const char* rest = first.ptr + 1;
    while (rest < end && *rest == ' ') ++rest;
    auto second = std::from_chars(rest, end, scale);
    if (second.ec != std::errc() || second.ptr != end) return nullptr;
    auto type = arrow::DecimalType::Make(id, precision, scale);
    return type.ok() ? *type : nullptr;
  }
  return nullptr;
}

}  // namespace

TypePtr find_type(const std::string& name) {
  auto found = plain_types().find(name);
  if (found != plain_types().end()) return found->second;
  if (auto type = zoned_type(name)) return type;
  return decimal_type(name);
}

std::string known_types() {
  std::string known;
  for (const auto& [type, unused] : plain_types()) known += type + ", ";
  return known +
         "timestamp[us, tz=UTC], decimal128(10, 2) and decimal256(50, 2) with other units, zones "
         "and digits";
}

std::string name_of_type(const arrow::DataType& type) {
  for (const auto& [name, other] : plain_types()) {
    if (other->Equals(type)) return name;
  }
  return type.ToString();
}

TypePtr type_by_name(const std::string& name, const std::string& doing) {
  if (auto type = find_type(name)) return type;
  throw Error(ErrorKind::kInvalidArgument, str(doing, ": no such type; there are ", known_types()));
}

}  // namespace manta::data
