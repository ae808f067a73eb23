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

/// Row groups are decoded and computed in pieces of so many rows: few enough that a piece's columns
/// stay in the processor's cache from one operation to the next.
inline constexpr int64_t kPieceRows = 32 * 1024;

/// Names of columns. Nothing: all columns, whatever their names are.
using ColumnNames = std::optional<std::vector<std::string>>;
using SchemaPtr = std::shared_ptr<arrow::Schema>;
/// The functions of a plan. Its JSON names them by their place in this list.
struct PlanFunctions : std::vector<PlanFunction> {
  /// Rows in memory (from_arrow) of the plans inside of this one, which JSON does not hold, either.
  /// Their sources name them by their places.
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
  /// What its reader in operation_table.cc takes. Appends its functions to the list.
  virtual Json to_json(PlanFunctions& functions) const = 0;
  /// Throws Error(kInvalidArgument) if it cannot follow the operations that the plan has so far.
  virtual void check_after(const Plan& plan) const = 0;
  /// The columns that come out; null if nobody knows before it has run. Throws if the columns that
  /// go in do not fit.
  virtual SchemaPtr schema_after(const SchemaPtr& before) const = 0;
  /// Which columns must go in, if `live` ones of those that come out are used.
  virtual ColumnNames columns_needed(ColumnNames live) const = 0;
  /// How many rows it gives of a fragment that has `before` rows. Nothing: known only by running.
  /// After an operation that materialises, `before` may be all rows, and the fragment 0.
  virtual std::optional<int64_t> rows_after(size_t fragment,
                                            std::optional<int64_t> before) const = 0;
  /// Whether it may give more rows than go in.
  virtual bool may_add_rows() const = 0;
  /// Plans whose rows it reads beside those that go in: the right side of a join.
  virtual std::vector<std::shared_ptr<const Plan>> inner_plans() const { return {}; }
  /// Processes that it runs in, if it does: whoever runs a plan holds them meanwhile. They start
  /// when they are first needed.
  virtual std::shared_ptr<BatchHelpers> helpers() const { return nullptr; }
  /// Adds what holds for every row that it lets through and can be told from the file's columns.
  /// False if conditions that come after it say nothing about rows of the file.
  virtual bool add_bounds(FileBounds& bounds) const = 0;
};

/// Works on any rows by themselves. The pipeline runs several of them on a piece while it is in the
/// cache.
class RowOperation : public Operation {
 public:
  /// Changes the columns of the piece, or marks in the mask which rows stay. Rows that the mask has
  /// removed may still be in the piece. `live`: the columns that are used later.
  virtual void run(Piece& piece, RowMask& mask, const ColumnNames& live) const = 0;
  /// Whether it makes the same of the same rows each time: what it made may be kept for the next
  /// epochs. False if it runs code of the user's.
  virtual bool repeats() const { return true; }
  /// Whether it takes columns as they are, drops or renames some, and nothing else: then it does
  /// not matter how their values are encoded.
  virtual bool only_picks_columns() const { return false; }

  void check_after(const Plan&) const override {}
  bool may_add_rows() const final { return false; }
};

/// Where rows come from, for errors and for tables by fragment.
struct Place {
  const Plan& plan;
  size_t fragment = 0;  ///< After a window operation: the window's first.
  /// For operations that take long over one call: counted after each bounded part of it.
  WorkCountPtr work = nullptr;
  std::string describe() const;
};

/// Errors of the call say where the rows come from.
template <class Call>
auto naming_place(const Place& place, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.kind(), str(place.describe(), ": ", error.what()));
  }
}

/// Needs the rows of a fragment, or of a window after a window operation, in their order, and gives
/// some before it has seen all.
class FlowOperation : public Operation {
 public:
  /// What it does with the rows of one fragment. Used by one thread at a time.
  class Flow {
   public:
    virtual ~Flow() = default;
    /// The next rows; passes on what it makes of all so far.
    virtual void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) = 0;
    /// There are no more.
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
  /// `part`: of a window that is too large to be held as a whole, which comes in several, one after
  /// the other.
  virtual Batches run(const Batches& batches, int64_t epoch, int64_t window,
                      int64_t part) const = 0;
  /// A part, but for the last, has at least so many rows. 0: rows stay as they come, and a part is
  /// what has come.
  virtual int64_t least_rows() const = 0;

  bool may_add_rows() const final { return false; }
};

/// The rows that go into an operation: the next ones, never an empty batch; null at the end.
using NextBatch = std::function<std::shared_ptr<arrow::RecordBatch>()>;

/// What a materialising operation works with.
struct AllRows {
  NextBatch next;    ///< Gives null, too, once somebody wants it to stop.
  SchemaPtr schema;  ///< Of these rows; null if it is known from the rows only.
  ColumnNames live;  ///< The columns of the result that are used later. It may give others, too.
  int64_t epoch = 0;
  int threads = 1;  ///< That it may use, and that read other plans for it.
  /// Once it is true, `run` should return soon; what it has given is thrown away.
  std::function<bool()> stopping = {};
  /// Reading other plans for it is shown under this name; empty: it is not.
  std::string progress = {};
  /// About how many bytes they have, if that is known: who can only use so many does not begin to
  /// keep them.
  std::optional<int64_t> bytes = std::nullopt;
  /// Only if it `runs_in_parts`: all at once did not fit into memory.
  bool in_parts = false;
  /// For what takes long between two calls of `next` or of the sink, which count already.
  WorkCountPtr work = nullptr;
};

class StoredRows;

/// Where it puts the rows that it gives.
class RowSink {
 public:
  virtual ~RowSink() = default;
  /// In any batches: they are cut into fragments of the next stage by the rows alone.
  virtual void add(const std::shared_ptr<arrow::RecordBatch>& batch) = 0;
  /// A fragment ends here; without rows, there is none.
  virtual void end_fragment() = 0;
  /// From now on fragments end there only. `add` throws Error(kInvalidArgument) if one would have
  /// more bytes.
  virtual void cut_only_where_told(int64_t most_bytes) = 0;
  /// Instead of all that: these are the rows, in fragments as `add` would have cut them.
  virtual void use(std::shared_ptr<const StoredRows> rows) = 0;
};

/// Must see all rows before it gives the first one, as a sort does. It ends a stage of the plan:
/// what comes before it runs as a stream of its own, and the rows that it gives, in memory or in a
/// temporary file, are the source of what follows (stage_internal.h). The data reader of a training
/// run runs it once, however many workers and epochs it feeds, unless its rows depend on the epoch;
/// in the driver each pass runs it, and keeps its rows to the end of the pass, unless they are
/// held.
///
/// Filters that follow rule out fragments of the files only if `add_bounds` says so. An operation
/// that knows the rows of each fragment, such as a split, cannot follow.
class MaterialisingOperation : public Operation {
 public:
  /// All rows of an epoch, in order. Rows and their order must depend on the rows that go in and,
  /// if `depends_on_epoch`, on the epoch; not on how those are cut into batches: a training run
  /// goes on in the middle of them.
  virtual void run(const AllRows& rows, RowSink& sink) const = 0;
  /// How many rows it gives in all if `before` go in. Nothing: known only by running.
  virtual std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const = 0;
  virtual bool depends_on_epoch() const { return false; }
  /// What it may use; reading ahead for it takes a part of that. 0: it holds no rows.
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

/// An operation from its JSON. Throws Error(kInvalidArgument) if it is none, naming the field.
OperationPtr read_operation(const JsonFields& fields, const PlanFunctions& functions);

using ReadOperation = OperationPtr (*)(const JsonFields&, const PlanFunctions&);
/// Adds an operation that a layer above defines, to those of operation_table.cc. Call it before
/// `main`. False if there is one of that name.
bool register_operation(const std::string& name, ReadOperation read);

/// The data set with one more operation. Throws what is wrong with it there.
Dataset then(const Dataset& dataset, OperationPtr operation);

// ---- For operations.

std::string join(const std::vector<std::string>& names);
bool contains(const std::vector<std::string>& names, const std::string& name);
/// `names` are all there, or Error(kNotFound) says in which operation one is not.
void require_columns(const std::vector<std::string>& names, const std::vector<std::string>& there,
                     const Operation& operation);
/// Adds the columns that the expression looks at.
ColumnNames with_columns_of(const Expression& expression, ColumnNames live);
/// The type of the expression's values.
std::shared_ptr<arrow::DataType> type_of(const Expression& expression, const arrow::Schema& schema);
uint64_t draw_seed();

}  // namespace manta::data
