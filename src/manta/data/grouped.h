#pragma once

#include <string>
#include <vector>

#include "manta/data/aggregate.h"
#include "manta/data/custom_aggregate.h"
#include "manta/data/dataset.h"

namespace manta {

/// What `Dataset::groupby` returns: rows that have equal values in the key columns are a group.
/// Null is a value of its own, and so is NaN; -0.0 is 0.0. Results come in the order of the keys,
/// NaN and then null last.
class GroupedDataset {
 public:
  GroupedDataset(Dataset dataset, std::vector<std::string> keys, const GroupByOptions& options);

  /// A row for each group: the keys, then the results. Aggregates of your own: `agg::custom`.
  Dataset aggregate(const std::vector<Aggregate>& aggregates) const;
  Dataset count() const { return aggregate({agg::count()}); }
  Dataset sum(const std::string& column) const { return aggregate({agg::sum(column)}); }
  Dataset min(const std::string& column) const { return aggregate({agg::min(column)}); }
  Dataset max(const std::string& column) const { return aggregate({agg::max(column)}); }
  Dataset mean(const std::string& column) const { return aggregate({agg::mean(column)}); }
  Dataset std(const std::string& column, int ddof = 1) const {
    return aggregate({agg::std(column, ddof)});
  }
  Dataset quantile(const std::string& column, double q = 0.5) const {
    return aggregate({agg::quantile(column, q)});
  }
  Dataset unique(const std::string& column) const { return aggregate({agg::unique(column)}); }

  /// Calls a function, of the kind that `map_batches` takes, with all rows of a group in their
  /// order. The results come group after group. Several threads call the function at a time, so two
  /// groups for each thread must fit into memory.
  template <data::TakesBatch F>
  Dataset map_groups(F function) const {
    return map_function(data::detail::make_plan_function(function, {}));
  }
  template <data::TakesBatchAndArgs F>
  Dataset map_groups(F function, const data::ArgsOf<F>& args) const {
    return map_function(data::detail::make_plan_function(function, internal::to_value(args)));
  }

 private:
  Dataset map_function(data::PlanFunction function) const;

  Dataset dataset_;
  std::vector<std::string> keys_;
  int64_t memory_bytes_;
};

template <std::convertible_to<std::string> Name>
GroupedDataset Dataset::groupby(const Name& key, const GroupByOptions& options) const {
  return groupby(std::vector<std::string>{key}, options);
}

}  // namespace manta
