#include "manta/core/task_spec.h"

#include "manta/base/error_internal.h"

namespace manta::internal {

std::string task_name(const TaskSpec& spec) {
  if (!spec.name.empty()) return spec.name;
  if (spec.kind != TaskKind::kActorCreate) return describe_function(spec.function);
  return spec.actor_name.empty() ? demangle(spec.actor_type.c_str()) : spec.actor_name;
}

}  // namespace manta::internal
