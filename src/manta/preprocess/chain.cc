#include "manta/preprocess/chain.h"

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/preprocess/learning.h"
#include "manta/preprocess/repartitioner.h"

namespace manta {
namespace {

void add_name(std::vector<std::string>& names, std::string name) {
  if (!data::contains(names, name)) names.push_back(std::move(name));
}

bool changes_blocks(const Preprocessor& preprocessor) {
  const auto* chain = dynamic_cast<const Chain*>(&preprocessor);
  if (!chain) return dynamic_cast<const Repartitioner*>(&preprocessor) != nullptr;
  return std::any_of(chain->parts().begin(), chain->parts().end(),
                     [](const auto& part) { return changes_blocks(*part); });
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
  Chain fitted = *this;
  internal::fit_preprocessor(fitted, dataset);
  parts_ = std::move(fitted.parts_);
}

bool Chain::is_fitted() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->is_fitted(); });
}

Dataset Chain::transform(const Dataset& dataset) const {
  if (!changes_blocks(*this)) return Preprocessor::transform(dataset);
  require_fitted(*this);
  Dataset rows = dataset;
  for (const auto& part : parts_) rows = part->transform(rows);
  return rows;
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
    auto removed = part->removed_columns();
    std::erase_if(made, [&](const auto& name) { return data::contains(removed, name); });
    for (auto& name : part->output_columns()) add_name(made, std::move(name));
  }
  return made;
}

std::vector<std::string> Chain::removed_columns() const {
  std::vector<std::string> removed;
  for (const auto& part : parts_) {
    auto made = part->output_columns();
    std::erase_if(removed, [&](const auto& name) { return data::contains(made, name); });
    for (auto& name : part->removed_columns()) add_name(removed, std::move(name));
  }
  return removed;
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
