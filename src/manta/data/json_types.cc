#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/json_lines_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/unknown_column_internal.h"

namespace manta::data {
namespace {

[[noreturn]] void throw_no_type(const Json& json, const char* reader) {
  throw Error(ErrorKind::kInvalidArgument,
              str(reader, ": ", short_text(json),
                  " is no type; there are names such as \"int64\" and \"string\", {\"list\": type} "
                  "and {\"struct\": [[name, type], ...]}"));
}

}  // namespace

std::shared_ptr<arrow::DataType> type_from_json(const Json& json, const char* reader, int depth) {
  if (depth > kMaxLineNesting) {
    throw Error(ErrorKind::kInvalidArgument,
                str(reader, ": a type is nested deeper than ", kMaxLineNesting, " levels"));
  }
  if (json.is_string()) return csv_type(json.get<std::string>(), reader);
  if (!json.is_object() || json.size() != 1) throw_no_type(json, reader);
  if (json.contains("list")) return arrow::list(type_from_json(json["list"], reader, depth + 1));
  if (!json.contains("struct") || !json["struct"].is_array()) throw_no_type(json, reader);
  arrow::FieldVector fields;
  std::vector<std::string> names;
  for (const Json& field : json["struct"]) {
    bool fits = field.is_array() && field.size() == 2 && field[0].is_string() &&
                field[0].get_ref<const std::string&>().size() <= kLongestName;
    if (!fits) throw_no_type(json, reader);
    names.push_back(field[0]);
    fields.push_back(arrow::field(names.back(), type_from_json(field[1], reader, depth + 1)));
  }
  require_distinct(names, str("the fields of a struct of ", reader));
  return arrow::struct_(fields);
}

Json type_to_json(const arrow::DataType& type) {
  if (type.id() == arrow::Type::LIST) {
    return {{"list", type_to_json(*static_cast<const arrow::ListType&>(type).value_type())}};
  }
  if (type.id() != arrow::Type::STRUCT) return csv_type_name(type);
  Json fields = Json::array();
  for (const auto& field : type.fields()) {
    fields.push_back(Json::array({field->name(), type_to_json(*field->type())}));
  }
  return {{"struct", fields}};
}

}  // namespace manta::data
