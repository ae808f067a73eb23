#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/expression_internal.h"

namespace manta::data {

std::shared_ptr<arrow::DataType> csv_type(const std::string& name, const char* reader) {
  if (name == "null") return arrow::null();
  if (auto type = find_type(name)) return type;
  throw Error(ErrorKind::kInvalidArgument,
              str(reader, ": there is no type '", name, "'; there are null, ", known_types()));
}

std::string csv_type_name(const arrow::DataType& type) { return name_of_type(type); }

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
