#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/csv_internal.h"

namespace manta::data {
namespace {

using NamedTypes = std::vector<std::pair<std::string, std::shared_ptr<arrow::DataType>>>;

const NamedTypes& csv_types() {
  using arrow::TimeUnit;
  static const NamedTypes types = [] {
    NamedTypes all = {
        {"null", arrow::null()},       {"bool", arrow::boolean()},
        {"int8", arrow::int8()},       {"int16", arrow::int16()},
        {"int32", arrow::int32()},     {"int64", arrow::int64()},
        {"uint8", arrow::uint8()},     {"uint16", arrow::uint16()},
        {"uint32", arrow::uint32()},   {"uint64", arrow::uint64()},
        {"float32", arrow::float32()}, {"float64", arrow::float64()},
        {"string", arrow::utf8()},     {"binary", arrow::binary()},
        {"date32", arrow::date32()},   {"time32[s]", arrow::time32(TimeUnit::SECOND)}};
    for (auto unit : {TimeUnit::SECOND, TimeUnit::MILLI, TimeUnit::MICRO, TimeUnit::NANO}) {
      auto local = arrow::timestamp(unit);
      all.emplace_back(local->ToString(), local);
      auto instant = arrow::timestamp(unit, "UTC");
      all.emplace_back(instant->ToString(), instant);
    }
    return all;
  }();
  return types;
}

}  // namespace

std::shared_ptr<arrow::DataType> csv_type(const std::string& name, const char* reader) {
  std::string known;
  for (const auto& [other, type] : csv_types()) {
    if (other == name) return type;
    known += (known.empty() ? "" : ", ") + other;
  }
  throw Error(ErrorKind::kInvalidArgument,
              str(reader, ": there is no type '", name, "'; there are ", known));
}

std::string csv_type_name(const arrow::DataType& type) {
  for (const auto& [name, other] : csv_types()) {
    if (other->Equals(type)) return name;
  }
  return type.ToString();
}

const std::vector<std::shared_ptr<arrow::DataType>>& inferred_csv_types() {
  static const std::vector<std::shared_ptr<arrow::DataType>> types = [] {
    std::vector<std::shared_ptr<arrow::DataType>> all;
    for (const char* name :
         {"null", "int64", "uint64", "bool", "date32", "time32[s]", "timestamp[s]", "timestamp[ns]",
          "timestamp[s, tz=UTC]", "timestamp[ns, tz=UTC]", "float64", "string", "binary"}) {
      all.push_back(csv_type(name));
    }
    return all;
  }();
  return types;
}

}  // namespace manta::data
