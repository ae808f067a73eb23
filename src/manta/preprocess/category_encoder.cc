#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/preprocess/categories_internal.h"
#include "manta/preprocess/encoders.h"

namespace manta::internal {

using preprocess::CategoryTally;
using preprocess::Lists;

void CategoryEncoder::check_columns(const arrow::Schema& schema) const {
  preprocess::check_category_columns(columns_, schema);
}

std::unique_ptr<Tally> CategoryEncoder::start_tally() const {
  return std::make_unique<CategoryTally>(columns_, by_element_ ? Lists::kElements : Lists::kWhole);
}

bool CategoryEncoder::finish_tally(Tally& all) {
  std::vector<preprocess::CategoriesPtr> learned;
  for (const auto& counts : static_cast<CategoryTally&>(all).parts()) {
    const std::string& column = columns_.inputs()[learned.size()];
    if (auto given = given_.find(column); given != given_.end()) {
      learned.push_back(given->second);
      continue;
    }
    auto most = most_.find(column);
    learned.push_back(preprocess::learn_categories(
        counts, column, name(), nulls_,
        most == most_.end() ? std::nullopt
                            : std::optional<size_t>(static_cast<size_t>(most->second))));
  }
  categories_ = std::move(learned);
  return true;
}

void CategoryEncoder::set_most(std::map<std::string, int64_t> most) {
  for (const auto& [column, number] : most) {
    if (!data::contains(columns_.inputs(), column)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(name(), ": max_categories names column '", column,
                      "', which is not among its columns ", data::join(columns_.inputs())));
    }
    if (number < 1) {
      throw Error(ErrorKind::kInvalidArgument, str(name(), ": max_categories of column '", column,
                                                   "' must be at least 1 (was ", number, ")"));
    }
  }
  most_ = std::move(most);
}

Json CategoryEncoder::stats() const {
  require_fitted(*this);
  Json stats;
  for (size_t i = 0; i < columns_.size(); ++i) {
    stats[str("unique_values(", columns_.inputs()[i], ")")] = categories_[i]->values();
  }
  return stats;
}

Json CategoryEncoder::state() const {
  Json state;
  columns_.write(state);
  if (!most_.empty()) state["max_categories"] = most_;
  preprocess::write_categories(categories_, state);
  return state;
}

void CategoryEncoder::read_learned(const JsonFields& fields) {
  if (fields.has("max_categories")) {
    auto by_column = fields.object("max_categories");
    std::map<std::string, int64_t> most;
    for (const auto& [column, number] : by_column.json().items()) {
      most[column] = by_column.integer(column, 1, INT64_MAX);
    }
    set_most(std::move(most));
  }
  categories_ = preprocess::read_categories(fields, columns_.size());
}

}  // namespace manta::internal
