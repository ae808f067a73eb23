#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/data/bounds_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/plan_function.h"
#include "manta/data/row_mask_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/work_count_internal.h"

namespace arrow {
class DataType;
class Schema;
class Table;
}  // namespace arrow

namespace manta {
class Dataset;
namespace internal {
class JsonFields;
}
}  // namespace manta

namespace manta::data {

class BatchHelpers;
struct Plan;

/// Row groups are decoded and computed in pieces of this many rows: few enough that a piece's
/// columns stay in the processor's cache from one operation to the next.
inline constexpr int64_t kPieceRows = 32 * 1024;

/// Names of columns. Nothing: all columns, whatever their names.
using ColumnNames = std::optional<std::vector<std::string>>;
using SchemaPtr = std::shared_ptr<arrow::Schema>;
/// The functions of a plan. Its JSON names them by their place in this list.
struct PlanFunctions : std::vector<PlanFunction> {
  /// Rows in memory (from_arrow) of the plans inside this one; JSON does not hold them, either.
  /// Their sources name them by their places in this list.
  std::vector<std::shared_ptr<arrow::Table>> tables;
};

/// One step of a plan: its text, its JSON, its rules and, in one of the four classes below, how it
/// runs. A new operation is one file, `operation_<name>.cc`, and its name in operation_table.cc.
/// Operations never change and are used by several threads.
class Operation {
 public:
  virtual ~Operation() = default;

  /// As the user wrote it: `filter(fare < 1000)`.
  virtual std::string to_string() const = 0;
  /// The JSON that its reader in operation_table.cc takes. Appends its functions to the list.
  virtual Json to_json(PlanFunctions& functions) const = 0;
  /// Throws Error(kInvalidArgument) if it cannot follow the operations that the plan has so far.
  virtual void check_after(const Plan& plan) const = 0;
  /// The columns that come out; null if they are unknown before it has run. Throws if the columns
  /// that go in do not fit.
  virtual SchemaPtr schema_after(const SchemaPtr& before) const = 0;
  /// Which columns must go in, if the columns `live` of those that come out are used.
  virtual ColumnNames columns_needed(ColumnNames live) const = 0;
  /// How many rows it gives of a fragment that has `before` rows. Nothing: known only by running.
  /// After an operation that materialises, `before` may be all rows, and the fragment 0.
  virtual std::optional<int64_t> rows_after(size_t fragment,
                                            std::optional<int64_t> before) const = 0;
  /// Whether it may give more rows than go in.
  virtual bool may_add_rows() const = 0;
  /// Plans whose rows it reads in addition to those that go in: the right side of a join.
  virtual std::vector<std::shared_ptr<const Plan>> inner_plans() const { return {}; }
  /// The processes in which it runs, if any. The code that runs a plan holds them meanwhile. They
  /// start when they are first needed.
  virtual std::shared_ptr<BatchHelpers> helpers() const { return nullptr; }
  /// Adds the conditions on the file's columns that hold for every row that it lets through. False
  /// if later conditions say nothing about rows of the file.
  virtual bool add_bounds(FileBounds& bounds) const = 0;
};

/// Works on each row by itself. The pipeline runs several such operations on a piece while the
/// piece is in the cache.
class RowOperation : public Operation {
 public:
  /// Changes the columns of the piece, or marks in the mask which rows stay. Rows that the mask has
  /// removed may still be in the piece. `live`: the columns that are used later.
  virtual void run(Piece& piece, RowMask& mask, const ColumnNames& live) const = 0;
  /// Whether it makes the same result from the same rows each time, so that the result may be kept
  /// for the next epochs. False if it runs the user's code.
  virtual bool repeats() const = 0;
  /// Whether it takes columns as they are, drops or renames some, and nothing else. The encoding of
  /// their values does not matter then.
  virtual bool only_picks_columns() const { return false; }

  void check_after(const Plan&) const override {}
  bool may_add_rows() const final { return false; }
};

/// Where rows come from, for errors and for tables by fragment.
struct Place {
  const Plan& plan;
  size_t fragment = 0;  ///< After a window operation: the window's first.
  /// For operations whose calls take long: they count each bounded part of a call.
  WorkCountPtr work = nullptr;
  std::string describe() const;
};

/// Makes the call; its errors say where the rows come from.
template <class Call>
auto naming_place(const Place& place, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.kind(), str(place.describe(), ": ", error.what()));
  }
}

/// Needs the rows of a fragment (after a window operation: of a window) in their order, and gives
/// rows before it has seen all.
class FlowOperation : public Operation {
 public:
  /// Runs the operation on the rows of one fragment. Used by one thread at a time.
  class Flow {
   public:
    virtual ~Flow() = default;
    /// Takes the next rows; passes on the results so far.
    virtual void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) = 0;
    /// Called when there are no more rows.
    virtual void finish(const TakeBatch& take) = 0;
  };
  /// `place` lives as long as the flow.
  virtual std::unique_ptr<Flow> begin(const Place& place) const = 0;
};

/// Puts fragments together to windows and changes the order of rows within each. A stage of a plan
/// has at most one.
class WindowOperation : public Operation {
 public:
  /// The windows of an epoch, in order: each a list of indices of fragments.
  virtual std::vector<std::vector<size_t>> windows(const std::vector<Fragment>& fragments,
                                                   int64_t epoch) const = 0;
  /// `part`: the number of the part, for a window that is too large to be held as a whole and so
  /// comes in parts, one after the other.
  virtual Batches run(const Batches& batches, int64_t epoch, int64_t window,
                      int64_t part) const = 0;
  /// Each part, except the last, has at least this many rows. 0: rows keep their order, and a part
  /// may have any size.
  virtual int64_t least_rows() const = 0;

  bool may_add_rows() const final { return false; }
};

/// The rows that go into an operation: the next ones, never an empty batch; null at the end.
using NextBatch = std::function<std::shared_ptr<arrow::RecordBatch>()>;

/// The input of a materialising operation.
struct AllRows {
  NextBatch next;    ///< Also gives null once `stopping` is true.
  SchemaPtr schema;  ///< The schema of these rows; null if only the rows show it.
  ColumnNames live;  ///< The columns of the result that are used later. It may give others, too.
  int64_t epoch = 0;
  int threads = 1;  ///< Threads that it may use, and that read other plans for it.
  /// Once it is true, `run` should return soon; its results are thrown away.
  std::function<bool()> stopping = {};
  /// The name under which progress of reading other plans is shown; empty: not shown.
  std::string progress = {};
  /// About how many bytes the rows have, if that is known: an operation with less memory does not
  /// begin to keep them.
  std::optional<int64_t> bytes = std::nullopt;
  /// Only if the operation `runs_in_parts`: all rows at once did not fit into memory.
  bool in_parts = false;
  /// For work that takes long between two calls of `next` or of the sink; those calls count by
  /// themselves.
  WorkCountPtr work = nullptr;
};

class StoredRows;

/// Receives the rows that an operation gives.
class RowSink {
 public:
  virtual ~RowSink() = default;
  /// Batches may have any size: only the rows decide how they are cut into fragments of the next
  /// stage.
  virtual void add(const std::shared_ptr<arrow::RecordBatch>& batch) = 0;
  /// Ends a fragment here, if there are rows in it.
  virtual void end_fragment() = 0;
  /// From now on only end_fragment ends fragments. `add` throws Error(kInvalidArgument) if a
  /// fragment would have more bytes.
  virtual void cut_only_where_told(int64_t most_bytes) = 0;
  /// Instead of the calls above: gives all rows at once, in fragments as `add` would have cut them.
  virtual void use(std::shared_ptr<const StoredRows> rows) = 0;
};

/// Must see all rows before it gives the first one, as a sort does. It ends a stage of the plan:
/// the operations before it run as a separate stream, and the rows that it gives, in memory or in a
/// temporary file, are the source of the operations after it (stage_internal.h). The data reader of
/// a training run runs it once, for any number of workers and epochs, unless its rows depend on the
/// epoch. In the driver, each pass runs it and keeps its rows to the end of the pass, unless they
/// are held.
///
/// Filters that follow rule out fragments of the files only if `add_bounds` says so. An operation
/// that knows the rows of each fragment, such as a split, cannot follow.
class MaterialisingOperation : public Operation {
 public:
  /// All rows of an epoch, in order. Rows and their order must depend on the rows that go in and,
  /// if `depends_on_epoch`, on the epoch; not on how the rows are cut into batches: a training run
  /// may resume in the middle of them.
  virtual void run(const AllRows& rows, RowSink& sink) const = 0;
  /// How many rows it gives in all if `before` go in. Nothing: known only by running.
  virtual std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const = 0;
  virtual bool depends_on_epoch() const { return false; }
  /// The memory that it may use; reading ahead for it takes a part of that. 0: it holds no rows.
  virtual int64_t memory_bytes() const { return 0; }
  /// Whether it takes rows as Source::read_coded gives them; `AllRows::schema` is then what they
  /// stand for.
  virtual bool takes_coded() const { return false; }
  /// Whether rows are read before it asks for them.
  virtual bool reads_ahead() const { return true; }
  /// Whether it can work on a part of the rows at a time. Then, if `run` throws TooLittleMemory,
  /// all rows are read again, for another `run` with `in_parts`, which must give the same rows.
  virtual bool runs_in_parts() const { return false; }
  /// The rows that it gives, if this process has them already (`Dataset::materialize`).
  virtual std::shared_ptr<const StoredRows> held_rows() const { return nullptr; }

  void check_after(const Plan&) const override {}
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const final {
    return std::nullopt;
  }
  bool may_add_rows() const final { return true; }
};

using OperationPtr = std::shared_ptr<const Operation>;

/// An operation from its JSON. Throws Error(kInvalidArgument), which names the field, if it is not
/// one.
OperationPtr read_operation(const JsonFields& fields, const PlanFunctions& functions);

using ReadOperation = OperationPtr (*)(const JsonFields&, const PlanFunctions&);
/// Adds an operation that a layer above defines, to those of operation_table.cc. Call it before
/// `main`. False if the name is taken.
bool register_operation(const std::string& name, ReadOperation read);

/// The data set with one more operation. Throws if the operation is not valid at this place.
Dataset then(const Dataset& dataset, OperationPtr operation);

// ---- For operations.

std::string join(const std::vector<std::string>& names);
bool contains(const std::vector<std::string>& names, const std::string& name);
/// Throws Error(kNotFound), which names the operation, unless all `names` are there.
void require_columns(const std::vector<std::string>& names, const std::vector<std::string>& there,
                     const Operation& operation);
/// Adds the columns that the expression reads.
ColumnNames with_columns_of(const Expression& expression, ColumnNames live);
/// The type of the expression's values.
std::shared_ptr<arrow::DataType> type_of(const Expression& expression, const arrow::Schema& schema);
uint64_t draw_seed();

}  // namespace manta::data
