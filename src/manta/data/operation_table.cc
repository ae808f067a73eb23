#include "manta/base/error.h"
#include "manta/data/json_fields_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_function.h"

namespace manta::data {

// Every operation that a plan may have. Its file defines `read_<name>`.
#define MANTA_OPERATIONS(EACH) \
  EACH(filter)                 \
  EACH(with_column)            \
  EACH(select_columns)         \
  EACH(drop_columns)           \
  EACH(drop_na)                \
  EACH(map_batches)            \
  EACH(split)                  \
  EACH(window_shuffle)

#define MANTA_DECLARE(name) OperationPtr read_##name(const JsonFields&, const PlanFunctions&);
MANTA_OPERATIONS(MANTA_DECLARE)
#undef MANTA_DECLARE

namespace {

struct Entry {
  const char* name;
  OperationPtr (*read)(const JsonFields&, const PlanFunctions&);
};

#define MANTA_ENTRY(name) {#name, read_##name},
constexpr Entry kTable[] = {MANTA_OPERATIONS(MANTA_ENTRY)};
#undef MANTA_ENTRY

}  // namespace

OperationPtr read_operation(const Json& json, size_t index, const PlanFunctions& functions) {
  JsonFields fields(json, str("operation ", index));
  std::string op = fields.text("op");
  for (const auto& entry : kTable) {
    if (op == entry.name)
      return entry.read(JsonFields(json, str("operation ", index, ", ", op)), functions);
  }
  throw Error(ErrorKind::kInvalidArgument, str("a plan with the unknown operation ", shorten(op)));
}

}  // namespace manta::data
