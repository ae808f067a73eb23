#include "manta/core/call_function_internal.h"

namespace manta {

Value call_function(const Function& function, const Value& arguments) {
  auto [thunk, target] = resolve_function(function);
  const std::vector<RefArgument> no_references;
  const std::vector<Value> no_values;
  Invocation call;
  call.target = target;
  call.args = &arguments;
  call.ref_args = &no_references;
  call.ref_values = &no_values;
  thunk(call);
  return std::move(call.result);
}

}  // namespace manta
