#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/wide_internal.h"

namespace manta {
namespace data {
namespace {

class Sort final : public MaterialisingOperation {
 public:
  Sort(std::vector<std::string> keys, std::vector<bool> descending, Nulls nulls, int64_t memory)
      : keys_(std::move(keys)),
        descending_(std::move(descending)),
        nulls_(nulls),
        memory_(memory) {}

  std::string to_string() const override {
    std::vector<std::string> keys;
    for (size_t i = 0; i < keys_.size(); ++i) {
      keys.push_back(keys_[i] + (descending_[i] ? " descending" : ""));
    }
    return str("sort(", join(keys), nulls_ == Nulls::kFirst ? ", nulls first" : "", ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "sort"},
            {"keys", keys_},
            {"descending", descending_},
            {"nulls_first", nulls_ == Nulls::kFirst},
            {"memory", memory_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns(keys_, before->field_names(), *this);
    order_keys(*before, keys_, descending_, nulls_, to_string());
    WideColumns(before, to_string());
    return before;
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    for (const auto& key : keys_) {
      if (live && !contains(*live, key)) live->push_back(key);
    }
    return live;
  }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    return before;
  }
  // Rows that a later filter drops do not move the others.
  bool add_bounds(FileBounds&) const override { return true; }
  int64_t memory_bytes() const override { return wide_memory(memory_); }
  bool takes_coded() const override { return true; }

  void run(const AllRows& rows, RowSink& sink) const override {
    auto first = rows.next();
    if (!first) return;
    auto keys = order_keys(*first->schema(), keys_, descending_, nulls_, to_string());
    AllRows all = rows;
    all.next = [&] { return first ? std::move(first) : rows.next(); };
    sort_rows(all, keys, keys_of_columns(keys_, descending_, nulls_), memory_, to_string(), sink);
  }

 private:
  const std::vector<std::string> keys_;
  const std::vector<bool> descending_;
  const Nulls nulls_;
  const int64_t memory_;
};

void check_sort(const std::vector<std::string>& keys, const std::vector<bool>& descending) {
  if (keys.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "sort needs at least one column to sort by");
  }
  require_distinct(keys, "sort");
  if (descending.size() != keys.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("sort by ", keys.size(), " columns got ", descending.size(),
                    " directions; give one for each in descending_keys"));
  }
}

}  // namespace

OperationPtr read_sort(const JsonFields& fields, const PlanFunctions&) {
  auto keys = fields.texts("keys", kLongestName);
  std::vector<bool> descending;
  for (const auto& each : fields.array("descending")) {
    if (!each.is_boolean()) fields.fail("descending", "a list of booleans");
    descending.push_back(each.get<bool>());
  }
  check_sort(keys, descending);
  return std::make_shared<Sort>(std::move(keys), std::move(descending),
                                fields.boolean("nulls_first") ? Nulls::kFirst : Nulls::kLast,
                                checked_memory(fields.integer("memory", 0, kMaxRows), "sort"));
}

}  // namespace data

Dataset Dataset::sort(const std::vector<std::string>& keys, const SortOptions& options) const {
  auto descending = options.descending_keys;
  if (descending.empty()) descending.assign(keys.size(), options.descending);
  data::check_sort(keys, descending);
  return then(*this,
              std::make_shared<data::Sort>(keys, std::move(descending), options.nulls,
                                           data::checked_memory(options.memory_bytes, "sort")));
}

}  // namespace manta
