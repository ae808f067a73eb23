#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/json.h"
#include "manta/data/bounds_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/row_mask_internal.h"
#include "manta/data/source_internal.h"

namespace arrow {
class DataType;
class Schema;
}  // namespace arrow

namespace manta {
class Dataset;
class JsonFields;
}  // namespace manta

namespace manta::data {

class PlanFunction;
struct Plan;

/// Row groups are decoded and computed in pieces of so many rows: few enough that a piece's columns
/// stay in the processor's cache from one operation to the next.
inline constexpr int64_t kPieceRows = 32 * 1024;

/// Names of columns. Nothing: all columns, whatever their names are.
using ColumnNames = std::optional<std::vector<std::string>>;
using SchemaPtr = std::shared_ptr<arrow::Schema>;
/// The functions of a plan. Its JSON names them by their place in this list.
using PlanFunctions = std::vector<PlanFunction>;

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

  void check_after(const Plan&) const override {}
  bool may_add_rows() const final { return false; }
};

/// Where rows come from, for errors and for tables by fragment.
struct Place {
  const Plan& plan;
  size_t fragment = 0;  ///< After a window operation: the window's first.
  std::string describe() const;
};

/// Needs all rows of a fragment, or of a window after a window operation.
class BatchOperation : public Operation {
 public:
  virtual Batches run(const Batches& batches, const Place& place) const = 0;
};

/// Puts fragments together to windows and changes the order of rows within each. A stage of a plan
/// has at most one.
class WindowOperation : public Operation {
 public:
  /// The windows of an epoch, in order: each a list of indices of fragments.
  virtual std::vector<std::vector<size_t>> windows(const std::vector<Fragment>& fragments,
                                                   int64_t epoch) const = 0;
  virtual Batches run(const Batches& batches, int64_t epoch, int64_t window) const = 0;

  bool may_add_rows() const final { return false; }
};

/// The rows that go into an operation: the next ones, never an empty batch; null at the end.
using NextBatch = std::function<std::shared_ptr<arrow::RecordBatch>()>;

/// Must see all rows before it gives the first one, as a sort does. It ends a stage of the plan:
/// what comes before it runs as a stream of its own, and the rows that it gives are the source of
/// what follows (stage_internal.h). A pass over the plan runs it once, when the pass begins, and
/// owns its rows to the end of the pass; so it runs again for each epoch, and in each process that
/// makes passes: the data reader of a training run, the driver in iter_batches and its kin.
///
/// Filters that follow rule out fragments of the files only if `add_bounds` says so. An operation
/// that knows the rows of each fragment, such as a split, cannot follow.
class MaterialisingOperation : public Operation {
 public:
  /// All rows of an epoch, in order. Each batch is a fragment of the next stage, so it should have
  /// about kPieceRows rows, and memory of its own: a slice of something larger would count as the
  /// whole in the next stage's byte budget. Rows, order and cut must depend on the rows that go in
  /// and on the epoch only, not on how those are cut into batches: a training run goes on in the
  /// middle of them.
  virtual Batches run(const NextBatch& next, int64_t epoch) const = 0;
  /// How many rows it gives in all if `before` go in. Nothing: known only by running.
  virtual std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const = 0;

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
