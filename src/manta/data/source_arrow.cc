#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/source_arrow_internal.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

// Many smaller batches would cost more than their rows.
constexpr int64_t kSmallChunkRows = 1024;

/// A table in memory; a fragment is at most kPieceRows of its rows, from one of its chunks or from
/// several small ones.
class ArrowSource final : public Source {
 public:
  explicit ArrowSource(std::shared_ptr<arrow::Table> table) : table_(std::move(table)) {
    require_distinct(table_->schema()->field_names(), "from_arrow");
    // Chunks of columns may end in different rows, and may be of any length.
    arrow::TableBatchReader reader(*table_);
    reader.set_chunksize(kPieceRows);
    std::shared_ptr<arrow::RecordBatch> batch;
    while (check(reader.ReadNext(&batch), "from_arrow: cutting the table"), batch) {
      if (batch->num_rows() > 0) add(batch);
    }
  }

  std::string_view name() const override { return "arrow"; }
  std::string to_string() override {
    return str("from_arrow: ", table_->num_rows(), " rows in memory");
  }
  // The rows travel beside it: see WirePlan.
  Json to_json() override { return Json::object(); }
  std::string why_not_stored() const override {
    return "its rows are in memory (from_arrow, from_items). Write them to files with "
           "write_parquet, and read those; to restore a run that uses it, give the data set again";
  }
  std::shared_ptr<arrow::Schema> schema() override { return table_->schema(); }
  const std::vector<Fragment>& fragments() override { return fragments_; }
  bool rules_out(size_t, const std::vector<Bound>&) override { return false; }
  std::string describe(size_t fragment) const override {
    return str("rows from ", first_rows_[fragment], " on of a table in memory");
  }

  void read(size_t fragment, const std::vector<std::string>& columns, int64_t piece_rows,
            const TakeBatch& take) override {
    std::vector<int> places;
    for (const auto& name : columns) places.push_back(table_->schema()->GetFieldIndex(name));
    for (const auto& batch : in_one(batches_[fragment], places)) {
      for (int64_t row = 0; row < batch->num_rows(); row += piece_rows) {
        take(batch->Slice(row, piece_rows));
      }
    }
  }

  const std::shared_ptr<arrow::Table>& table() const { return table_; }

 private:
  void add(const std::shared_ptr<arrow::RecordBatch>& batch) {
    int64_t rows = batch->num_rows();
    bool small = rows < kSmallChunkRows;
    if (fragments_.empty() || !small || !last_is_small_ ||
        fragments_.back().expected_rows + rows > kPieceRows) {
      first_rows_.push_back(rows_);
      fragments_.push_back({0, 0});
      batches_.emplace_back();
    }
    batches_.back().push_back(batch);
    rows_ += rows;
    int64_t all = fragments_.back().expected_rows + rows;
    fragments_.back() = {all, all};
    last_is_small_ = small;
  }

  // Makes one batch, if Arrow can put columns of these types together.
  static Batches in_one(const Batches& batches, const std::vector<int>& places) {
    Batches picked;
    int64_t rows = 0;
    for (const auto& batch : batches) {
      picked.push_back(check(batch->SelectColumns(places), "from_arrow"));
      rows += batch->num_rows();
    }
    if (picked.size() == 1) return picked;
    if (places.empty())
      return {arrow::RecordBatch::Make(picked[0]->schema(), rows, arrow::ArrayVector())};
    auto one = arrow::ConcatenateRecordBatches(picked);
    return one.ok() ? Batches{*one} : picked;
  }

  const std::shared_ptr<arrow::Table> table_;
  std::vector<Batches> batches_;     // of each fragment
  std::vector<int64_t> first_rows_;  // of each fragment
  std::vector<Fragment> fragments_;
  int64_t rows_ = 0;
  bool last_is_small_ = false;
};

}  // namespace

std::shared_ptr<Source> arrow_source(const std::shared_ptr<arrow::Table>& table) {
  return std::make_shared<ArrowSource>(table);
}

std::shared_ptr<arrow::Table> rows_in_memory(const Source& source) {
  auto* arrow = dynamic_cast<const ArrowSource*>(&source);
  return arrow ? arrow->table() : nullptr;
}

Dataset from_arrow(const std::shared_ptr<arrow::Table>& table) {
  if (!table) throw Error(ErrorKind::kInvalidArgument, "from_arrow needs a table, not null");
  if (auto valid = table->Validate(); !valid.ok()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("from_arrow: the table is not valid: ", valid.message()));
  }
  return dataset_of(arrow_source(table));
}

Dataset from_arrow(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  if (batches.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "from_arrow needs at least one batch, of which it takes the columns; it may have "
                "no rows");
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    if (!batches[i])
      throw Error(ErrorKind::kInvalidArgument, str("from_arrow: batch ", i, " is null"));
    if (have_same_columns(*batches[0]->schema(), *batches[i]->schema())) continue;
    throw Error(
        ErrorKind::kInvalidArgument,
        str("from_arrow: batch ", i, " has the columns {", describe_columns(*batches[i]->schema()),
            "}, not {", describe_columns(*batches[0]->schema()), "} as the first one"));
  }
  return from_arrow(check(arrow::Table::FromRecordBatches(batches), "from_arrow"));
}

}  // namespace manta::data
