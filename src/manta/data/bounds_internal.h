#pragma once

#include <set>
#include <string>
#include <vector>

#include "manta/data/expression.h"

namespace parquet {
class FileMetaData;
class Statistics;
}  // namespace parquet

namespace manta::data {

struct Plan;

/// A comparison of a file column with a constant that every row of the result fulfils.
struct Bound {
  std::string column;
  Expression comparison;  ///< `column < constant` and the like, or is_in; never !=.
};

/// The bounds that a walk over a plan's operations gathers.
struct FileBounds {
  std::set<std::string> columns;  ///< Columns that still hold the file's values.
  std::vector<Bound> bounds;

  /// Adds a condition that all further rows fulfil.
  void add(const Expression& condition);
};

std::vector<Bound> bounds_of(const Plan& plan);
/// Whether the statistics of a column say that none of its values fulfils the bound. False for
/// statistics that cannot tell: without both ends, of an unknown order, of NaN.
bool excludes(const Bound& bound, const parquet::Statistics& statistics);
/// Whether the statistics of a row group say that none of its rows fulfils all bounds.
bool excluded(const std::vector<Bound>& bounds, const parquet::FileMetaData& footer,
              int row_group_number);

}  // namespace manta::data
