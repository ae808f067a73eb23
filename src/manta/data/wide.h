#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Options of the operations that need all rows at once. They run on DuckDB, which is loaded when
/// it is first needed, and which spills what exceeds `memory_bytes` to the run's temporary folder.
/// The rows of sorts, shuffles and joins stay in memory if a quarter of `memory_bytes` is enough
/// for them; they are put into order when they are read. All other rows are written to a temporary
/// file.
namespace manta {

/// Whether rows with a null key come last or first. Rows with NaN come between them and the others.
enum class Nulls { kLast, kFirst };

struct SortOptions {
  bool descending = false;  ///< By all keys.
  /// For each key, if they differ; else empty.
  std::vector<bool> descending_keys = {};
  Nulls nulls = Nulls::kLast;
  /// About how much memory it may use. 0: a quarter of the machine's, or of the process's cgroup.
  int64_t memory_bytes = 0;
};

struct RandomShuffleOptions {
  std::optional<uint64_t> seed = std::nullopt;  ///< None: drawn when the plan is built.
  /// A new order in each epoch, which costs the whole shuffle each time. A `window_shuffle` after a
  /// shuffle of all rows costs almost nothing.
  bool reshuffle_each_epoch = false;
  int64_t memory_bytes = 0;  ///< As in SortOptions.
};

struct RandomizeBlockOrderOptions {
  std::optional<uint64_t> seed = std::nullopt;  ///< None: drawn when the plan is built.
};

/// Which rows a join gives.
enum class JoinType {
  kInner,      ///< Pairs of rows with equal keys.
  kLeft,       ///< And rows of the left without a partner, with nulls on the right.
  kRight,      ///< And rows of the right without a partner, with nulls on the left.
  kOuter,      ///< Both.
  kLeftSemi,   ///< Rows of the left that have a partner, once each, without columns of the right.
  kLeftAnti,   ///< Rows of the left that have none.
  kRightSemi,  ///< Rows of the right that have a partner.
  kRightAnti,  ///< Rows of the right that have none.
};

struct JoinOptions {
  JoinType type = JoinType::kInner;
  /// The keys' names on the right side, if they differ. In the result the keys have the names of
  /// the left.
  std::vector<std::string> right_on = {};
  /// Appended to the names of columns, other than keys, that both sides have. Without suffixes such
  /// columns are an error.
  std::string left_suffix = {};
  std::string right_suffix = {};
  int64_t memory_bytes = 0;  ///< As in SortOptions.
};

struct ZipOptions {
  std::string suffix = "_1";  ///< For columns of the right whose names the left has, as in Ray.
};

struct GroupByOptions {
  int64_t memory_bytes = 0;  ///< As in SortOptions.
};

struct SplitOptions {
  /// All parts have the same number of rows, and up to n - 1 rows at the end are left out. Default:
  /// no row is left out, and the first parts may have one row more.
  bool equal = false;
};

}  // namespace manta
