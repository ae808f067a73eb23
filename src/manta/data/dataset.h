#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "manta/base/json.h"
#include "manta/data/expression.h"
#include "manta/data/plan_function.h"
#include "manta/data/stats.h"
#include "manta/data/wide.h"

struct ArrowArrayStream;  // of <arrow/c/abi.h>

namespace arrow {
class ChunkedArray;
class RecordBatch;
class Schema;
class Table;
struct Scalar;
}  // namespace arrow

namespace manta {

class Aggregate;
class Dataset;
class GroupedDataset;

namespace data {

struct Plan;

/// What `map_batches` calls: takes a batch of rows and returns another, of any number of rows.
using BatchFunction =
    std::shared_ptr<arrow::RecordBatch> (*)(const std::shared_ptr<arrow::RecordBatch>&);

struct ReadParquetOptions {
  std::vector<std::string> columns = {};  ///< In this order. None: all columns of the files.
  /// Folders named `year=2020` below the given one are columns, after those of the files: int64 if
  /// all their values are integers, else string; `__HIVE_DEFAULT_PARTITION__` is null. Filters on
  /// them rule out files. Error(kInvalidArgument) if the files have a column of that name, unless
  /// `columns` leaves it out.
  bool hive_partitions = true;
};

/// Rows of Parquet files, one file after the other. A path is a file, a folder (all *.parquet files
/// below it) or a pattern such as `data/2020-*.parquet`. The files of a folder or pattern come in
/// the order of their names. Opens the first file only; the others are opened when rows or their
/// number are needed. Throws Error(kNotFound) for a file or a column that does not exist,
/// Error(kCorrupt) for a file that is not Parquet, Error(kInvalidArgument) for two columns of the
/// same name. A path may also be an address, `s3://bucket/folder/2020-*.parquet`: see docs/data.md.
Dataset read_parquet(const std::string& path, const ReadParquetOptions& options = {});
Dataset read_parquet(const std::vector<std::string>& paths, const ReadParquetOptions& options = {});

class BatchRange;
class RowRange;

}  // namespace data

struct MapBatchesOptions {
  int64_t batch_size = 4096;  ///< Maximum rows: batches do not cross row groups.
  /// Call the function in this many processes, which share nothing: for functions that several
  /// threads must not call at a time, or that may crash. Batches go there and back through shared
  /// memory, and results come in the order of the rows. A process that dies is replaced, and the
  /// new one gets its batch; a batch is tried three times in all. The processes take no CPU from
  /// the run's resources. They start with the first batch of a pass (in training: of the run) and
  /// end with the last. 0: on the threads of this process.
  int concurrency = 0;
};

namespace data::detail {

template <class F>
constexpr bool fits_map_batches() {
  return TakesBatch<std::decay_t<F>>;
}
template <class F, class A>
constexpr bool fits_map_batches() {
  using Decayed = std::decay_t<F>;
  if constexpr (TakesBatchAndArgs<Decayed>) {
    return std::is_convertible_v<const A&, const ArgsOf<Decayed>&>;
  } else {
    return std::is_same_v<A, MapBatchesOptions>;
  }
}
template <class F, class A, class Options>
constexpr bool fits_map_batches() {
  return fits_map_batches<F, A>() && TakesBatchAndArgs<std::decay_t<F>> &&
         std::is_same_v<Options, MapBatchesOptions>;
}

template <class F, class... More>
constexpr void explain_map_batches() {
  using Plain = typename FunctionOf<F>::type;
  require_batch_function<Plain>();
  if constexpr (TakesBatch<F>) {
    static_assert(!sizeof(F),
                  "manta: map_batches was given arguments for a function that takes a batch only; "
                  "add a parameter `const Args&` to it");
  } else if constexpr (TakesBatchAndArgs<F>) {
    static_assert(sizeof...(More) > 0,
                  "manta: map_batches was given a function with a parameter for arguments, and no "
                  "arguments: map_batches(function, args)");
    static_assert(sizeof...(More) == 0,
                  "manta: the arguments of map_batches are not of the type that the function "
                  "takes: map_batches(function, args, options)");
  }
}

}  // namespace data::detail

namespace data::detail {

template <FunctionKind kind, class F, class... More>
constexpr bool fits_row_function() {
  if constexpr (sizeof...(More) == 0) {
    return TakesRow<F, kind>;
  } else if constexpr (TakesRowAndArgs<F, kind> && sizeof...(More) == 1) {
    return (std::is_convertible_v<const More&, const ArgsOf<F>&> && ...);
  } else {
    return false;
  }
}

template <FunctionKind kind, class F, class... More>
constexpr void explain_row_function() {
  using Plain = typename FunctionOf<F>::type;
  constexpr bool callable = manta::detail::HasCallOperator<Plain>;
  static_assert(!std::is_class_v<Plain> || callable,
                "manta: map, flat_map and filter need a plain function or a lambda whose "
                "parameters have types of their own (no `auto`)");
  static_assert(!std::is_class_v<Plain> || !callable || can_travel<Plain>,
                "manta: map, flat_map and filter cannot take a lambda with captures, because it "
                "runs in other processes, too. Pass what it captures as arguments: map([](const "
                "Row& row, const Args& args) {...}, args)");
  constexpr bool is_right = kind_of_row_function<Plain>() == kind;
  static_assert(!can_travel<Plain> || is_right || kind != FunctionKind::kMap,
                "manta: map needs a function of the form Row(const Row&) or Row(const Row&, const "
                "Args&)");
  static_assert(!can_travel<Plain> || is_right || kind != FunctionKind::kFlatMap,
                "manta: flat_map needs a function of the form std::vector<Row>(const Row&) or "
                "std::vector<Row>(const Row&, const Args&)");
  static_assert(!can_travel<Plain> || is_right || kind != FunctionKind::kFilter,
                "manta: filter needs an expression, or a function of the form bool(const Row&) or "
                "bool(const Row&, const Args&)");
  static_assert(!is_right || takes_args<Plain>() || sizeof...(More) == 0,
                "manta: map, flat_map or filter was given arguments for a function that takes a "
                "row only; add a parameter `const Args&` to it");
  static_assert(!is_right || !takes_args<Plain>(),
                "manta: map, flat_map or filter was given a function with a parameter for "
                "arguments, and no arguments of that type: map(function, args)");
}

}  // namespace data::detail

struct RandomSampleOptions {
  std::optional<uint64_t> seed = std::nullopt;  ///< None: drawn when the plan is built.
};

struct FillNaOptions {
  /// None: every column that keeps its type (columns of numbers for a number, of texts for a text).
  std::vector<std::string> columns = {};
};

struct WindowShuffleOptions {
  /// A window is made of whole row groups with at least this many rows together, before any filter.
  /// More rows mix better and take more memory: each thread holds a window. A window that would
  /// take more than 128 MiB comes in parts, each shuffled by itself. A part has at least this many
  /// rows, except the last one.
  int64_t rows = 1 << 17;
  std::optional<uint64_t> seed = std::nullopt;  ///< None: drawn when the plan is built.
};

struct TrainTestSplitOptions {
  bool shuffle = false;  ///< Draw test rows from everywhere. Default: the last rows.
  std::optional<uint64_t> seed = std::nullopt;  ///< None: drawn when the plan is built.
  /// Each value of this column (null is one, too) makes up the same share of both parts, give or
  /// take a row. Needs `shuffle`, and is an operation on all rows.
  std::string stratify = {};
};

struct BatchOptions {
  int64_t batch_size = 256;
  bool drop_last = false;  ///< Leave out a last batch that is not full.
  int64_t epoch = 0;       ///< Selects the order of a window shuffle.
};

struct RowOptions {
  int64_t epoch = 0;  ///< Selects the order of a window shuffle.
};

struct WriteParquetOptions {
  int64_t rows_per_file = 1 << 20;     ///< At most.
  std::string compression = "snappy";  ///< Or "zstd", "none".
  bool overwrite = false;  ///< Replace the *.parquet files that the folder has. Default: an error.
};

struct WriteCsvOptions {
  int64_t rows_per_file = 1 << 20;  ///< At most. Each file has a header.
  char delimiter = ',';
  /// What is written for null, without quotes. If there is one column only, it must not be empty:
  /// read_csv skips empty lines.
  std::string null_value = "";
  bool overwrite = false;  ///< Replace the *.csv files that the folder has. Default: an error.
};

struct WriteJsonOptions {
  int64_t rows_per_file = 1 << 20;  ///< At most.
  /// JSON has neither NaN nor infinities. True: write null for them. Default: an error.
  bool nan_as_null = false;
  bool overwrite = false;  ///< Replace the *.jsonl, *.json and *.ndjson files of the folder.
};

struct WriteNumpyOptions {
  std::string column = {};          ///< May be left out if there is only one.
  int64_t rows_per_file = 1 << 20;  ///< At most.
  bool overwrite = false;  ///< Replace the *.npy files that the folder has. Default: an error.
};

/// Rows with named columns, and what to do with them: a plan, which runs when you ask for rows.
/// Building it reads no rows. Copying it is cheap. It never changes: each method returns another
/// Dataset.
///
/// A plan streams row group after row group, on all processors. Only the columns that the result
/// depends on are decoded, and row groups that statistics rule out are skipped. Mistakes such as
/// unknown columns are found when the plan is built, up to the first `map_batches`.
class Dataset {
 public:
  /// Keeps the rows for which the condition is true (neither false nor null).
  Dataset filter(const Expression& condition) const;
  /// Adds a column, or replaces the column of that name.
  Dataset with_column(const std::string& name, const Expression& value) const;
  /// Adds a column. Throws Error(kInvalidArgument) if there is one of that name.
  Dataset add_column(const std::string& name, const Expression& value) const;
  /// Other names for columns, {{"old", "new"}}; two columns may swap names. Columns keep their
  /// places.
  Dataset rename_columns(const std::map<std::string, std::string>& names) const;
  /// Other types for columns, {{"id", "int32"}}, by the rules and names of Expression::cast: a
  /// value that does not fit fails the read.
  Dataset cast(const std::map<std::string, std::string>& types) const;
  /// Puts a constant where a column is null or NaN. The columns keep their types, unless a named
  /// one cannot hold the constant: then it becomes int64 or float64, as in `coalesce`. A column of
  /// floating-point numbers can hold every number, rounded, that is not too large for it. Without
  /// names, a column for which the number is too large is Error(kInvalidArgument).
  Dataset fill_na(const Expression& value, const FillNaOptions& options = {}) const;
  /// The first `rows` rows. Later rows are not read. If the number of rows of each row group is
  /// known (Parquet without filters before it), row groups are skipped. Otherwise limit reads one
  /// row group after the other until there are enough rows, and keeps the rows in a temporary file.
  Dataset limit(int64_t rows) const;
  /// Keeps each row with this probability, from 0 to 1. The choice depends on the seed and on the
  /// row's place (its row group, and its number in that group), not on threads. Must come before
  /// any `window_shuffle`.
  Dataset random_sample(double fraction, const RandomSampleOptions& options = {}) const;
  /// Keeps these columns, in this order.
  Dataset select_columns(const std::vector<std::string>& names) const;
  Dataset drop_columns(const std::vector<std::string>& names) const;
  /// Drops the rows in which one of these columns is null or NaN. No names: any column.
  Dataset drop_na(const std::vector<std::string>& names = {}) const;
  /// Calls a function on batches of rows, on several threads at a time. The function is a plain
  /// function or a lambda without captures, and must give the same result for the same rows
  /// whenever it is called. If it throws, reading the rows throws Error(kUserCode). It must not
  /// write to the memory of the batch, which may hold the rows of other batches and of later
  /// epochs.
  ///
  /// The function also runs in other processes of this program, where variables that `main` has set
  /// are not set. Pass what it needs as `args`, of any type that `remote` takes as an argument
  /// (structs with a `serialize`, containers, Json, Arrow tables). Every process, this one
  /// included, calls it with a copy that was written and read back once.
  ///
  ///     Batch scale(const Batch& batch, const Scale& by);
  ///     dataset.map_batches(scale, {.column = "fare", .factor = 2})
  ///
  /// A data set with functions can be stored if they are `named`.
  Dataset map_batches(data::BatchFunction function, const MapBatchesOptions& options = {}) const;
  template <data::TakesBatch F>
  Dataset map_batches(F function, const MapBatchesOptions& options = {}) const {
    return map_function(data::detail::make_plan_function(std::move(function), {}), options);
  }
  template <data::TakesBatchAndArgs F>
  Dataset map_batches(F function, const data::ArgsOf<F>& args,
                      const MapBatchesOptions& options = {}) const {
    return map_function(
        data::detail::make_plan_function(std::move(function), internal::to_value(args)), options);
  }
  /// Chosen if none of these fits; says what is wrong.
  template <class F, class... More>
  requires(!data::detail::fits_map_batches<F, More...>()) Dataset
      map_batches(const F&, const More&...)
  const {
    data::detail::explain_map_batches<std::decay_t<F>, More...>();
    return *this;
  }
  template <class F>
  requires(!data::TakesBatch<std::decay_t<F>> && !data::TakesBatchAndArgs<std::decay_t<F>>) Dataset
      map_batches(const F&, const MapBatchesOptions&)
  const {
    data::detail::explain_map_batches<std::decay_t<F>>();
    return *this;
  }
  /// Calls a function with each row (row.h), on several threads at a time. It is a plain function
  /// or a lambda without captures, with or without arguments. What map_batches says of functions
  /// and arguments holds here, too:
  ///
  ///     Row scaled(Row row, const double& by) {
  ///       row.set("fare", row.get<double>("fare") * by);
  ///       return row;
  ///     }
  ///     dataset.map(scaled, 2.5)
  ///
  /// `map` gives the row that it returns, `flat_map` all rows of the std::vector<Row> that it
  /// returns, `filter` the rows for which it returns true. All rows must have the same columns.
  /// Expressions and map_batches are faster.
  template <data::TakesRow<data::FunctionKind::kMap> F>
  Dataset map(F function) const {
    return map_rows(data::detail::make_plan_function(std::move(function), {}));
  }
  template <data::TakesRowAndArgs<data::FunctionKind::kMap> F>
  Dataset map(F function, const data::ArgsOf<F>& args) const {
    return map_rows(
        data::detail::make_plan_function(std::move(function), internal::to_value(args)));
  }
  template <data::TakesRow<data::FunctionKind::kFlatMap> F>
  Dataset flat_map(F function) const {
    return map_rows(data::detail::make_plan_function(std::move(function), {}));
  }
  template <data::TakesRowAndArgs<data::FunctionKind::kFlatMap> F>
  Dataset flat_map(F function, const data::ArgsOf<F>& args) const {
    return map_rows(
        data::detail::make_plan_function(std::move(function), internal::to_value(args)));
  }
  template <data::TakesRow<data::FunctionKind::kFilter> F>
  Dataset filter(F function) const {
    return map_rows(data::detail::make_plan_function(std::move(function), {}));
  }
  template <data::TakesRowAndArgs<data::FunctionKind::kFilter> F>
  Dataset filter(F function, const data::ArgsOf<F>& args) const {
    return map_rows(
        data::detail::make_plan_function(std::move(function), internal::to_value(args)));
  }
  /// Chosen if none of these fits; says what is wrong.
  template <class F, class... More>
  requires(!data::detail::fits_row_function<data::FunctionKind::kMap, std::decay_t<F>, More...>())
      Dataset map(const F&, const More&...)
  const {
    data::detail::explain_row_function<data::FunctionKind::kMap, std::decay_t<F>, More...>();
    return *this;
  }
  template <class F, class... More>
  requires(!data::detail::fits_row_function<data::FunctionKind::kFlatMap, std::decay_t<F>,
                                            More...>()) Dataset flat_map(const F&, const More&...)
  const {
    data::detail::explain_row_function<data::FunctionKind::kFlatMap, std::decay_t<F>, More...>();
    return *this;
  }
  template <class F, class... More>
  requires(!std::convertible_to<F, Expression> &&
           !data::detail::fits_row_function<data::FunctionKind::kFilter, std::decay_t<F>,
                                            More...>()) Dataset filter(const F&, const More&...)
  const {
    data::detail::explain_row_function<data::FunctionKind::kFilter, std::decay_t<F>, More...>();
    return *this;
  }
  /// Puts row groups in a random order and permutes the rows within windows of them. Each epoch has
  /// a new order, which depends only on the seed and the epoch. At most one in a plan.
  Dataset window_shuffle(const WindowShuffleOptions& options = {}) const;
  /// The same, by the name that Ray gives it.
  Dataset random_shuffle_each_window(const WindowShuffleOptions& options = {}) const {
    return window_shuffle(options);
  }
  /// In training, this many epochs, or epochs without end: `DataShard::iter_epochs` gives them.
  /// Each has all rows, in the order that the shuffles of the plan give it. Everything else
  /// (`count`, `take`, `iter_batches`, a sort after it) sees one epoch. At most one in a plan, and
  /// none in the other side of a join, union or zip.
  Dataset repeat() const;
  Dataset repeat(int64_t times) const;

  // ---- Operations on all rows at once (wide.h).

  /// By one or several columns: numbers, times, texts (by their bytes), booleans. Rows with equal
  /// keys stay in the order in which they are. NaN and null come last (or first), in both
  /// directions.
  Dataset sort(const std::vector<std::string>& keys, const SortOptions& options = {}) const;
  template <std::convertible_to<std::string> Name>
  Dataset sort(const Name& key, const SortOptions& options = {}) const {
    return sort(std::vector<std::string>{key}, options);
  }
  /// All rows in a random order, which depends on the seed and on the order before. It is the same
  /// in every epoch, unless `reshuffle_each_epoch`.
  Dataset random_shuffle(const RandomShuffleOptions& options = {}) const;
  /// Puts row groups, or the fragments that other sources read, in a random order, the same in
  /// every epoch. The rows within each keep their order, and everything streams.
  Dataset randomize_block_order(const RandomizeBlockOrderOptions& options = {}) const;
  /// The same rows in this many blocks, whose sizes differ by at most a row (fewer blocks if there
  /// are fewer rows). A block is what is read at a time. Running it throws Error(kInvalidArgument)
  /// if a block would have more than 512 MiB.
  Dataset repartition(int64_t num_blocks) const;
  /// Groups of rows with equal keys, to aggregate or to map: see grouped.h.
  GroupedDataset groupby(const std::vector<std::string>& keys,
                         const GroupByOptions& options = {}) const;
  template <std::convertible_to<std::string> Name>
  GroupedDataset groupby(const Name& key, const GroupByOptions& options = {}) const;
  /// Rows of this data set (the left), each next to the rows of another data set (the right) with
  /// equal keys. Keys must be of the same type on both sides. Null equals nothing; NaN equals NaN,
  /// and -0.0 equals 0.0. Rows come in the order of the left, and for one left row in the order of
  /// the right; in a right join it is the other way round. In an outer join, rows of the right
  /// without a partner come last. The columns are those of the left, then those of the right
  /// without its keys.
  Dataset join(const Dataset& right, const std::vector<std::string>& on,
               const JoinOptions& options = {}) const;
  template <std::convertible_to<std::string> Name>
  Dataset join(const Dataset& right, const Name& on, const JoinOptions& options = {}) const {
    return join(right, std::vector<std::string>{on}, options);
  }
  /// The rows of this data set, then those of the others, which have the same columns.
  Dataset union_with(const std::vector<Dataset>& others) const;
  Dataset union_with(const Dataset& other) const { return union_with(std::vector<Dataset>{other}); }
  /// The columns of both, row by row. Reading fails if their numbers of rows differ.
  Dataset zip(const Dataset& right, const ZipOptions& options = {}) const;
  /// Runs the plan now and keeps its rows in a temporary file for as long as a Dataset made of this
  /// one lives. Other processes, such as the data reader of a training run, and programs that load
  /// the plan, each run it once.
  Dataset materialize() const;
  /// n data sets of consecutive rows. These three materialise the rows first.
  std::vector<Dataset> split(int64_t n, const SplitOptions& options = {}) const;
  /// {2, 5}: rows 0 and 1, rows 2 to 4, and the rest.
  std::vector<Dataset> split_at_indices(const std::vector<int64_t>& indices) const;
  /// {0.7, 0.2}: parts of 70% and 20% of the rows, and the rest.
  std::vector<Dataset> split_proportionately(const std::vector<double>& proportions) const;
  /// One row of results: `ds.aggregate({agg::sum("fare"), agg::max("tip")})`. See aggregate.h.
  std::shared_ptr<arrow::RecordBatch> aggregate(const std::vector<Aggregate>& aggregates) const;
  /// An aggregate of all rows, by the rules of aggregate.h. Null, or nothing, if there are no
  /// values.
  std::shared_ptr<arrow::Scalar> sum(const std::string& column) const;
  std::shared_ptr<arrow::Scalar> min(const std::string& column) const;
  std::shared_ptr<arrow::Scalar> max(const std::string& column) const;
  std::optional<double> mean(const std::string& column) const;
  std::optional<double> std(const std::string& column, int ddof = 1) const;
  /// The different values of a column in ascending order, with NaN and then null last.
  std::shared_ptr<arrow::ChunkedArray> unique(const std::string& column) const;
  /// Bytes of all rows as Arrow data. Runs the plan, unless it is materialised.
  int64_t size_bytes() const;
  /// Row groups, or what else is read at a time. Runs the plan up to its last operation on all
  /// rows.
  int64_t num_blocks() const;

  /// Two disjoint data sets, train and test. `test_size` is a fraction of the rows (0.3, rounded
  /// up) or, as an integer, a number of rows. Reads the data once to count the rows of the plan so
  /// far; after an operation on all rows, it materialises them. Must come before any
  /// `window_shuffle`.
  template <class Size>
  requires std::is_arithmetic_v<Size> std::pair<Dataset, Dataset> train_test_split(
      Size test_size, const TrainTestSplitOptions& options = {})
  const {
    if constexpr (std::is_integral_v<Size>) {
      return split_rows(static_cast<int64_t>(test_size), options);
    } else {
      return split_fraction(static_cast<double>(test_size), options);
    }
  }

  /// The number of rows. Reads what filters need; without filters, only the files' footers.
  int64_t count() const;
  /// Names and types of the columns. After `map_batches` this runs the plan up to its first row.
  std::shared_ptr<arrow::Schema> schema() const;
  std::vector<std::string> columns() const;
  /// The first rows, at most `n`.
  std::shared_ptr<arrow::Table> take(int64_t n = 20) const;
  /// All rows, in memory.
  std::shared_ptr<arrow::Table> to_table() const;
  std::shared_ptr<arrow::Table> take_all() const { return to_table(); }
  std::shared_ptr<arrow::Table> to_arrow() const { return to_table(); }
  /// The first rows, at most `rows`, as one batch.
  std::shared_ptr<arrow::RecordBatch> take_batch(int64_t rows = 20) const;
  /// Prints the first rows: each value on one line, cut after 32 characters, with unprintable
  /// characters as \\n or \\xff.
  void show(int64_t n = 20) const;
  /// All rows in batches of `batch_size`, read ahead in this process:
  /// `for (auto& batch : ds.iter_batches({.batch_size = 64}))`.
  data::BatchRange iter_batches(const BatchOptions& options = {}) const;
  /// All rows, one at a time: `for (const Row& row : ds.iter_rows())`. A Row stays valid for as
  /// long as you hold it.
  data::RowRange iter_rows(const RowOptions& options = {}) const;
  /// The paths and addresses of all files that it reads, also for joins and the like, each once.
  std::vector<std::string> input_files() const;

  /// A pass over all rows as a stream of Arrow's C data interface, for another library: it reads
  /// ahead, and its consumer must release it. Errors come out of its `get_next`.
  void to_arrow_stream(ArrowArrayStream* stream) const;

  /// Writes all rows to files in a folder, in order: part-00000.parquet, part-00001.parquet, ...
  /// Makes the folder if it is not there. Returns the number of rows; for none, there is one file
  /// with the columns only. Each file appears with all its content, even if the program is killed
  /// while writing; then some of the files may be there, and others not. If writing fails, the new
  /// files are removed. New files have other names than the old ones that they replace; the old
  /// ones are removed when all new ones are there and on the disk. Throws Error(kIo) if an old file
  /// cannot be removed. Writes at most 100,000 files. Throws Error(kInvalidArgument) if folders
  /// below this one have files of that kind: a reader of the folder would read them, too.
  int64_t write_parquet(const std::string& folder, const WriteParquetOptions& options = {}) const;
  /// The same as CSV, as read_csv reads it. Throws Error(kInvalidArgument) for columns of lists and
  /// other nested types.
  int64_t write_csv(const std::string& folder, const WriteCsvOptions& options = {}) const;
  /// The same as JSON, one object per line, as read_json reads it: part-00000.jsonl, ... Numbers
  /// keep all their digits; times are texts, as in CSV, and durations integers in their unit;
  /// binary values must be UTF-8; maps are lists of {"key", "value"}. Throws
  /// Error(kInvalidArgument) for columns of unions and intervals.
  int64_t write_json(const std::string& folder, const WriteJsonOptions& options = {}) const;
  /// Writes one column as arrays in numpy's format: part-00000.npy, ... Numbers and booleans become
  /// arrays of one dimension; each level of fixed-size lists adds a dimension. Throws
  /// Error(kInvalidArgument) for other types and for nulls. While a file is written, its rows are
  /// in a temporary file.
  int64_t write_numpy(const std::string& folder, const WriteNumpyOptions& options = {}) const;

  /// Runs the plan once, throws the rows away, and says where the time went: `std::cout <<
  /// ds.stats().to_string()`.
  DatasetStats stats() const;
  /// A description for people: the operations, the columns that are read, the row groups that are
  /// skipped. Opens all files.
  std::string explain() const;
  /// The plan as data, for a file. Paths are absolute. Throws Error(kInvalidArgument) if the plan
  /// has a function without a name, or with arguments that are not Json: see `named`.
  Json to_json() const;
  /// Accepts JSON from anywhere: a plan names files, and functions that this program has `named`,
  /// and can do nothing else. Throws Error(kInvalidArgument) if it is not what `to_json` writes,
  /// Error(kNotFound) for a function that this program does not have.
  static Dataset from_json(const Json& json);

  explicit Dataset(std::shared_ptr<const data::Plan> plan) : plan_(std::move(plan)) {}
  const std::shared_ptr<const data::Plan>& plan() const { return plan_; }

 private:
  Dataset map_function(data::PlanFunction function, const MapBatchesOptions& options) const;
  Dataset map_rows(data::PlanFunction function) const;
  std::pair<Dataset, Dataset> split_fraction(double fraction,
                                             const TrainTestSplitOptions& options) const;
  std::pair<Dataset, Dataset> split_rows(int64_t rows, const TrainTestSplitOptions& options) const;

  std::shared_ptr<const data::Plan> plan_;
};

namespace data {

/// What `Dataset::iter_batches` returns. You can iterate over it once.
class BatchRange {
 public:
  BatchRange(std::shared_ptr<const Plan> plan, const BatchOptions& options);
  ~BatchRange();
  BatchRange(BatchRange&&) noexcept;

  class Iterator {
   public:
    using value_type = std::shared_ptr<arrow::RecordBatch>;
    using difference_type = std::ptrdiff_t;
    const value_type& operator*() const { return range_->current(); }
    Iterator& operator++() {
      range_->advance();
      return *this;
    }
    void operator++(int) { range_->advance(); }
    bool operator==(std::default_sentinel_t) const { return !range_->current(); }

   private:
    friend class BatchRange;
    explicit Iterator(BatchRange* range) : range_(range) {}
    BatchRange* range_;
  };
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Impl;
  const std::shared_ptr<arrow::RecordBatch>& current() const;
  void advance();
  std::unique_ptr<Impl> impl_;
};

/// What `Dataset::iter_rows` returns. You can iterate over it once.
class RowRange {
 public:
  RowRange(const Dataset& dataset, int64_t epoch);

  class Iterator {
   public:
    using value_type = Row;
    using difference_type = std::ptrdiff_t;
    const Row& operator*() const { return range_->current_; }
    const Row* operator->() const { return &range_->current_; }
    Iterator& operator++() {
      range_->advance();
      return *this;
    }
    void operator++(int) { range_->advance(); }
    bool operator==(std::default_sentinel_t) const { return range_->ended_; }

   private:
    friend class RowRange;
    explicit Iterator(RowRange* range) : range_(range) {}
    RowRange* range_;
  };
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  void advance();
  void set_current();

  BatchRange batches_;
  std::optional<BatchRange::Iterator> batch_;
  int64_t index_ = 0;
  Row current_;
  bool ended_ = false;
};

}  // namespace data
}  // namespace manta
