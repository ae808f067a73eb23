#include <map>

#include "manta/base/error_internal.h"
#include "manta/train/backend_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

void add_nothing(Training&, const TorchConfig& config) {
  if (config.backend == TorchConfig().backend) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("Trainer(\"none\"): torch_config.backend is '", config.backend,
                  "', but the workers have no PyTorch; leave it out, or take Trainer(\"torch\")"));
}

// Filled before main, by headers; then only read.
std::map<std::string, AddBackend>& backends() {
  static std::map<std::string, AddBackend> all{{"none", add_nothing}};
  return all;
}

}  // namespace

bool register_backend(const std::string& name, AddBackend add) {
  backends()[name] = add;
  return true;
}

AddBackend find_backend(const std::string& name) {
  auto found = backends().find(name);
  if (found != backends().end()) return found->second;
  std::string known;
  for (const auto& [each, add] : backends()) known += str(known.empty() ? "" : ", ", each);
  std::string hint;
  if (name == "torch") hint = ": include manta/torch.h, and link manta::torch";
  throw Error(ErrorKind::kInvalidArgument,
              str("Trainer: there is no backend '", name, "' (known: ", known, ")", hint));
}

}  // namespace manta::train
