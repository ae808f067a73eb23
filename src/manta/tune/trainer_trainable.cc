#include "manta/tune/trainer_trainable.h"

#include "manta/base/error_internal.h"
#include "manta/train/training_internal.h"

namespace manta {
namespace tune {
namespace {

// The name of its first value, which is the most helpful: 'scaling_config.workers'.
std::string innermost(const std::string& name, const Space& space) {
  auto* inner = std::get_if<Space::Object>(&space.node());
  if (!inner || inner->empty()) return name;
  return innermost(name + "." + inner->begin()->first, inner->begin()->second);
}

void require_names(const Space& given, const Space& understood, const std::string& path,
                   const std::string& trainer) {
  auto* names = std::get_if<Space::Object>(&given.node());
  auto* known = std::get_if<Space::Object>(&understood.node());
  if (!names || !known) return;
  for (const auto& [name, space] : *names) {
    auto* inner = std::get_if<Space::Object>(&space.node());
    if (inner && inner->empty()) continue;
    auto found = known->find(name);
    if (found == known->end()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("param_space has '", innermost(path + name, space),
                      "', which is no option of a ", trainer, " that can be searched"));
    }
    require_names(space, found->second, path + name + ".", trainer);
  }
}

}  // namespace

void TrainerTrainable::check(const Space& space) const {
  if (!std::holds_alternative<Space::Object>(space.node())) {
    throw Error(ErrorKind::kInvalidArgument,
                "param_space must be an object, of a trainer's options by name");
  }
  require_names(space, understood_(space), "", trainer_->training().trainer);
}

}  // namespace tune

// Declared in a lower layer, for the sake of its name: trainer.as_trainable().
tune::TrainerTrainable DataParallelTrainer::as_trainable() const {
  return tune::TrainerTrainable(*this);
}

}  // namespace manta
