#include <arrow/api.h>

#include <algorithm>
#include <deque>

#include "manta/base/error_internal.h"
#include "manta/data/custom_groups_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/group_calls_internal.h"
#include "manta/data/row_batch_internal.h"
#include "manta/data/sorted_groups_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kResultRows = 4096;  // of a batch of results

BatchPtr columns_of(const BatchPtr& batch, const std::vector<std::string>& names) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (const auto& name : names) {
    int index = batch->schema()->GetFieldIndex(name);
    fields.push_back(batch->schema()->field(index));
    columns.push_back(batch->column(index));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), std::move(columns));
}

const AggregateCalls& calls_of(const Aggregate& aggregate) {
  return *aggregate.function()->aggregate();
}

}  // namespace

CustomGroups::CustomGroups(std::vector<std::string> keys, std::vector<Aggregate> aggregates,
                           std::string doing)
    : keys_(std::move(keys)), aggregates_(std::move(aggregates)), doing_(std::move(doing)) {}

std::shared_ptr<arrow::Field> CustomGroups::field(const Aggregate& aggregate) {
  return arrow::field(aggregate.name(), calls_of(aggregate).type());
}

std::vector<std::string> CustomGroups::columns() const {
  std::vector<std::string> all = keys_;
  for (const auto& aggregate : aggregates_) {
    for (const auto& name : aggregate.columns()) {
      if (!contains(all, name)) all.push_back(name);
    }
  }
  return all;
}

void CustomGroups::check_columns(const arrow::Schema& before) const {
  arrow::FieldVector sorted;
  for (const auto& name : columns()) {
    auto field = before.GetFieldByName(name);
    if (!field) {
      throw Error(ErrorKind::kNotFound,
                  str("in ", doing_, ": ", no_such_column(name, before.field_names())));
    }
    sorted.push_back(field);
  }
  if (!keys_.empty()) WideColumns(arrow::schema(sorted), doing_);
}

template <class Call>
auto CustomGroups::calling(const Aggregate& aggregate, const char* method, Call call) const {
  auto fail = [&](const std::string& what) {
    return Error(ErrorKind::kUserCode,
                 str("in ", doing_, ": ", method, " of ", aggregate.name(), " ", what));
  };
  try {
    return call(calls_of(aggregate));
  } catch (const RowFunctionError& error) {
    throw fail(error.what());
  } catch (const std::exception& error) {
    throw fail(str("threw ", demangle(typeid(error).name()), ": ", error.what()));
  } catch (...) {
    throw fail("threw what is no std::exception");
  }
}

CustomGroups::States CustomGroups::accumulate(const BatchPtr& rows) const {
  States states;
  for (const auto& aggregate : aggregates_) {
    auto seen = columns_of(rows, aggregate.columns());
    states.push_back(calling(aggregate, "accumulate", [&](const AggregateCalls& calls) {
      auto state = calls.init();
      calls.accumulate(state, seen);
      return state;
    }));
  }
  return states;
}

CustomGroups::States CustomGroups::of_none() const {
  States states;
  for (const auto& aggregate : aggregates_) {
    states.push_back(
        calling(aggregate, "State", [](const AggregateCalls& calls) { return calls.init(); }));
  }
  return states;
}

/// The finished groups, as batches, and the group that is not finished.
class CustomGroups::Results {
 public:
  Results(const CustomGroups& groups, const std::function<void(const BatchPtr&)>& take)
      : groups_(groups), take_(take) {
    for (const auto& aggregate : groups.aggregates_) {
      builders_.push_back(check(arrow::MakeBuilder(calls_of(aggregate).type()), "aggregating"));
    }
  }

  /// `key`: its columns, in one row.
  void begin(BatchPtr key, States states) {
    end_group();
    keys_.push_back(std::move(key));
    states_ = std::move(states);
  }
  void merge(const States& later) {
    for (size_t i = 0; i < later.size(); ++i) {
      groups_.calling(groups_.aggregates_[i], "merge",
                      [&](const AggregateCalls& calls) { calls.merge(states_[i], later[i]); });
    }
  }
  void finish() {
    end_group();
    flush();
  }

 private:
  void end_group() {
    for (size_t i = 0; i < states_.size(); ++i) {
      const auto& aggregate = groups_.aggregates_[i];
      auto value = groups_.calling(aggregate, "finalize", [&](const AggregateCalls& calls) {
        return calls.finalize(states_[i]);
      });
      check(builders_[i]->AppendScalar(*value.as<RowValue::Scalar>(aggregate.name())),
            aggregate.name());
    }
    states_.clear();
    if (std::ssize(keys_) >= kResultRows) flush();
  }
  void flush() {
    if (keys_.empty()) return;
    auto keys = concatenate(keys_);
    arrow::FieldVector fields = keys->schema()->fields();
    arrow::ArrayVector columns = keys->columns();
    for (size_t i = 0; i < builders_.size(); ++i) {
      fields.push_back(field(groups_.aggregates_[i]));
      columns.push_back(check(builders_[i]->Finish(), "aggregating"));
    }
    take_(arrow::RecordBatch::Make(arrow::schema(fields), std::ssize(keys_), std::move(columns)));
    keys_.clear();
  }

  const CustomGroups& groups_;
  const std::function<void(const BatchPtr&)>& take_;
  Batches keys_;  ///< Keys of the groups whose results are in the builders, and of the open group.
  States states_;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
};

bool CustomGroups::all_rows(const AllRows& rows,
                            const std::function<void(const BatchPtr&, bool)>& take) const {
  bool first = true;
  while (auto batch = rows.next()) {
    take(batch, first);
    first = false;
  }
  return !rows.stopping || !rows.stopping();
}

bool CustomGroups::run(const AllRows& rows, const arrow::Schema& schema, int64_t memory_bytes,
                       const std::function<void(const BatchPtr&)>& take) const {
  check_columns(schema);
  Results results(*this, take);
  std::deque<BatchPtr> parts;  // for each part being called: the key if it is its group's first
                               // part, otherwise null
  GroupCalls<States> calls([this](const BatchPtr& part) { return accumulate(part); },
                           [&](States states) {
                             BatchPtr key = std::move(parts.front());
                             parts.pop_front();
                             if (key) {
                               results.begin(std::move(key), std::move(states));
                             } else {
                               results.merge(states);
                             }
                           },
                           rows.threads, rows.work);
  // Only a group's rows decide where it is cut, not threads or batches.
  Batches waiting;
  int64_t waiting_rows = 0;
  BatchPtr key;
  auto submit = [&] {
    if (waiting.empty()) return;
    parts.push_back(std::move(key));
    key = nullptr;
    calls.add(concatenate(waiting));
    waiting.clear();
    waiting_rows = 0;
  };
  bool any = false;
  auto add = [&](const BatchPtr& some, bool first_of_group) {
    any = true;
    if (first_of_group) {
      submit();
      key = columns_of(some->Slice(0, 1), keys_);
    }
    for (int64_t row = 0; row < some->num_rows();) {
      auto part = some->Slice(row, kPieceRows - waiting_rows);
      row += part->num_rows();
      waiting_rows += part->num_rows();
      waiting.push_back(std::move(part));
      if (waiting_rows == kPieceRows) submit();
    }
  };
  bool all_there =
      keys_.empty() ? all_rows(rows, add) : for_each_group(rows, keys_, memory_bytes, doing_, add);
  if (!all_there) return false;
  submit();
  calls.finish();
  if (keys_.empty() && !any) {  // without rows, there is still a result
    results.begin(arrow::RecordBatch::Make(arrow::schema({}), 1, arrow::ArrayVector()), of_none());
  }
  results.finish();
  return true;
}

}  // namespace manta::data
