#include "manta/preprocess/chain.h"

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/operation_internal.h"

namespace manta {
namespace {

void add_name(std::vector<std::string>& names, std::string name) {
  if (!data::contains(names, name)) names.push_back(std::move(name));
}

}  // namespace

Chain::Chain(std::vector<AnyPreprocessor> parts) : parts_(std::move(parts)) {
  if (parts_.empty()) throw Error(ErrorKind::kInvalidArgument, "a Chain of no preprocessors");
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i]) continue;
    throw Error(ErrorKind::kInvalidArgument, str("part ", i, " of a Chain is no preprocessor"));
  }
}

void Chain::fit(const Dataset& dataset) {
  auto parts = parts_;
  Dataset so_far = dataset;
  for (auto& part : parts) {
    part->fit(so_far);
    if (&part != &parts.back()) so_far = part->transform(so_far);
  }
  parts_ = std::move(parts);
}

bool Chain::is_fitted() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->is_fitted(); });
}

data::BatchPtr Chain::transform_batch(const data::BatchPtr& batch) const {
  auto result = batch;
  for (const auto& part : parts_) result = part->transform_batch(result);
  return result;
}

std::vector<std::string> Chain::input_columns() const {
  std::vector<std::string> needed, made;
  for (const auto& part : parts_) {
    for (auto& name : part->input_columns()) {
      if (!data::contains(made, name)) add_name(needed, std::move(name));
    }
    for (auto& name : part->output_columns()) add_name(made, std::move(name));
  }
  return needed;
}

std::vector<std::string> Chain::output_columns() const {
  std::vector<std::string> made;
  for (const auto& part : parts_) {
    for (auto& name : part->output_columns()) add_name(made, std::move(name));
  }
  return made;
}

std::string Chain::to_string() const {
  std::vector<std::string> texts;
  for (const auto& part : parts_) texts.push_back(part->to_string());
  return str("Chain(", data::join(texts), ")");
}

Json Chain::state() const {
  Json parts = Json::array();
  for (const auto& part : parts_) parts.push_back(part->to_json());
  return {{"parts", std::move(parts)}};
}

Chain Chain::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  std::vector<AnyPreprocessor> parts;
  for (const Json& part : fields.array("parts")) {
    parts.push_back(AnyPreprocessor::from_json(part, str("part ", parts.size())));
  }
  return Chain(std::move(parts));
}

}  // namespace manta
