#include <map>

#include "manta/base/error_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_function.h"
#include "manta/data/plan_limits_internal.h"

namespace manta::data {

// Every operation that a plan may have. Its file defines `read_<name>`.
#define MANTA_OPERATIONS(EACH) \
  EACH(filter)                 \
  EACH(with_column)            \
  EACH(select_columns)         \
  EACH(drop_columns)           \
  EACH(drop_na)                \
  EACH(map_batches)            \
  EACH(map_rows)               \
  EACH(filter_rows)            \
  EACH(rename_columns)         \
  EACH(fill_na)                \
  EACH(limit)                  \
  EACH(limit_all)              \
  EACH(random_sample)          \
  EACH(split)                  \
  EACH(split_all)              \
  EACH(window_shuffle)         \
  EACH(sort)                   \
  EACH(random_shuffle)         \
  EACH(randomize_block_order)  \
  EACH(repartition)            \
  EACH(repeat)                 \
  EACH(materialize)            \
  EACH(slice)                  \
  EACH(join)                   \
  EACH(union)                  \
  EACH(zip)                    \
  EACH(group_by)               \
  EACH(map_groups)             \
  EACH(stratified_split)

#define MANTA_DECLARE(name) OperationPtr read_##name(const JsonFields&, const PlanFunctions&);
MANTA_OPERATIONS(MANTA_DECLARE)
#undef MANTA_DECLARE

namespace {

struct Entry {
  const char* name;
  ReadOperation read;
};

#define MANTA_ENTRY(name) {#name, read_##name},
constexpr Entry kTable[] = {MANTA_OPERATIONS(MANTA_ENTRY)};
#undef MANTA_ENTRY

// Operations of the layers above.
std::map<std::string, ReadOperation>& operations_of_others() {
  static std::map<std::string, ReadOperation> by_name;
  return by_name;
}

}  // namespace

bool register_operation(const std::string& name, ReadOperation read) {
  return operations_of_others().emplace(name, read).second;
}

OperationPtr read_operation(const JsonFields& fields, const PlanFunctions& functions) {
  std::string op = fields.text("op");
  for (const auto& entry : kTable) {
    if (op == entry.name) return entry.read(fields, functions);
  }
  auto other = operations_of_others().find(op);
  if (other != operations_of_others().end()) return other->second(fields, functions);
  fields.fail("op", "the name of an operation");
}

}  // namespace manta::data
