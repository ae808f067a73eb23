// Another kind of operation, in one file.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/parquet_fixture_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

/// Every row twice.
class Twice final : public FlowOperation {
 public:
  std::string to_string() const override { return "twice()"; }
  Json to_json(PlanFunctions&) const override { return {{"op", "twice"}}; }
  void check_after(const Plan&) const override {}
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before ? std::optional(*before * 2) : std::nullopt;
  }
  bool may_add_rows() const override { return true; }
  bool add_bounds(FileBounds&) const override { return true; }

  std::unique_ptr<Flow> begin(const Place&) const override { return std::make_unique<Doubled>(); }

 private:
  struct Doubled final : Flow {
    void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        take(batch->Slice(row, 1));
        take(batch->Slice(row, 1));
      }
    }
    void finish(const TakeBatch&) override {}
  };
};

std::vector<int64_t> ids_of(const Dataset& dataset) { return ints(*dataset.to_table(), "id"); }

TEST(ToyOperationTest, RunsBetweenOthersAndIsRefusedFromJson) {
  ParquetFolder folder;
  Dataset dataset =
      then(read_parquet(folder.write_rows("a.parquet", 0, 10, 4)), std::make_shared<Twice>());
  EXPECT_EQ(dataset.count(), 20);
  EXPECT_EQ(ids_of(dataset.filter(col("id") >= 8)), (std::vector<int64_t>{8, 8, 9, 9}));
  auto [train, test] = dataset.train_test_split(int64_t{6});
  EXPECT_EQ(ids_of(test), (std::vector<int64_t>{7, 7, 8, 8, 9, 9}));
  EXPECT_THAT(dataset.explain(), HasSubstr("twice()"));
  EXPECT_THAT(message_of([&] { Dataset::from_json(dataset.to_json()); }),
              HasSubstr("operations[0].op"));
}

}  // namespace
}  // namespace manta::data
