#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/custom_aggregate.h"
#include "manta/data/operation_internal.h"

namespace manta::data {

/// Custom aggregates over groups of rows, or over all rows if there are no keys.
class CustomGroups {
 public:
  CustomGroups(std::vector<std::string> keys, std::vector<Aggregate> aggregates, std::string doing);

  bool empty() const { return aggregates_.empty(); }
  const std::vector<Aggregate>& aggregates() const { return aggregates_; }
  /// The field of an aggregate's result.
  static std::shared_ptr<arrow::Field> field(const Aggregate& aggregate);
  /// The keys, and the columns that the aggregates read.
  std::vector<std::string> columns() const;
  /// Throws Error(kNotFound, kInvalidArgument) if the columns do not fit.
  void check_columns(const arrow::Schema& before) const;

  /// Gives keys and results, in the order of the keys. `schema` is that of the rows, which may be
  /// none. False if stopped.
  bool run(const AllRows& rows, const arrow::Schema& schema, int64_t memory_bytes,
           const std::function<void(const BatchPtr&)>& take) const;

 private:
  using States = std::vector<AggregateCalls::State>;
  class Results;

  bool all_rows(const AllRows& rows, const std::function<void(const BatchPtr&, bool)>& take) const;
  States accumulate(const BatchPtr& rows) const;
  States of_none() const;
  template <class Call>
  auto calling(const Aggregate& aggregate, const char* method, Call call) const;

  const std::vector<std::string> keys_;
  const std::vector<Aggregate> aggregates_;
  const std::string doing_;
};

}  // namespace manta::data
