#include "manta/base/error_internal.h"
#include "manta/train/loop_result_internal.h"

namespace manta::train {

LoopResult::LoopResult(const Value& value) : body_(value.body()) {
  if (!value.refs.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "what a worker's function returns holds an ObjectRef or an ActorHandle, which ends "
                "with the function: return the value itself");
  }
  if (value.memory) {
    memory_.assign(reinterpret_cast<const char*>(value.memory->data()), value.memory->size());
  }
}

Value LoopResult::value() const {
  Value value;
  value.inline_body = body_;
  if (!memory_.empty()) {
    SharedMemoryWriter writer;
    writer.append(memory_.data(), memory_.size());
    value.memory = std::move(writer).finish();
  }
  return value;
}

}  // namespace manta::train
