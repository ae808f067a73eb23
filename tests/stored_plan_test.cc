// A run folder's data sets are only data: an attacker who can write to params.json cannot make a
// program that restores the run call any function.

#include <gmock/gmock.h>

#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/train/params_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Batch = std::shared_ptr<arrow::RecordBatch>;

int calls = 0;
Batch counted(const Batch& batch) {
  ++calls;
  return batch;
}
Batch keep(const Batch& batch, const Json&) { return batch; }
const auto named_keep = named("keep", keep);

class StoredPlan : public testing::Test {
 protected:
  Dataset rows() { return data::read_parquet(folder_.write_rows("a.parquet", 0, 100, 10)); }

  // Changes what fit() has written, as an attacker could, and restores it.
  train::Training restore(const Dataset& dataset, const std::function<void(Json&)>& change) {
    train::Training training;
    training.trainer = "TorchTrainer";
    training.datasets.emplace("train", dataset);
    Json params = train::params_of(training);
    change(params.at("datasets").at("train"));
    std::ofstream(folder_.file("params.json")) << params.dump();
    return train::training_from_params(folder_.path());
  }

  data::ParquetFolder folder_;
};

TEST_F(StoredPlan, NamedFunctionsAreRestored) {
  auto dataset = rows().map_batches(named_keep, {{"a", 1}}).filter(col("id") < 7);
  auto training = restore(dataset, [](Json&) {});
  EXPECT_EQ(training.datasets.at("train").count(), 7);
}

TEST_F(StoredPlan, FiltersAreRestoredAsTheyWere) {
  Expression many = col("text") == "\xff\xfe";
  for (int i = 0; i < 300; ++i) many = many || col("id") == i;
  auto dataset = rows().filter(many && col("text") != "t1");
  auto restored = restore(dataset, [](Json&) {}).datasets.at("train");
  EXPECT_EQ(restored.to_json(), dataset.to_json());
  EXPECT_EQ(restored.count(), 90);
}

TEST_F(StoredPlan, OtherFunctionsAreLeftOut) {
  auto training = restore(rows().map_batches(counted), [](Json& dataset) {
    EXPECT_FALSE(dataset.contains("plan"));
    EXPECT_THAT(dataset.at("explain").get<std::string>(), HasSubstr("counted"));
  });
  EXPECT_TRUE(training.datasets.empty());
}

// The address of a function of this program, with the thunk that calls it: whatever form it has,
// nothing is called.
TEST_F(StoredPlan, ACraftedFunctionIsNotCalled) {
  auto function = data::detail::make_batch_function(&counted);
  auto address = [](const CodeAddress& code) {
    return Json{{"build_id", to_hex(code.build_id)}, {"offset", code.offset}};
  };
  Json crafted = {{"thunk", address(function.thunk)}, {"target", address(function.target)}};
  Json operation = crafted;
  operation.update({{"op", "map_batches"}, {"rows", 10}});
  auto refused = [&](const std::function<void(Json&)>& change) {
    Error error = error_of([&] {
      auto training = restore(rows(), [&](Json& dataset) { change(dataset.at("plan")); });
      training.datasets.at("train").to_table();
    });
    EXPECT_EQ(calls, 0);
    return std::string(error.what());
  };
  EXPECT_THAT(refused([&](Json& plan) { plan["operations"] = {operation}; }),
              HasSubstr("operations[0].function is missing"));
  operation["function"] = 0;
  EXPECT_THAT(refused([&](Json& plan) {
                plan["operations"] = {operation};
                plan["functions"] = {crafted};
              }),
              HasSubstr("functions[0].name is missing"));
  crafted["name"] = "counted";
  EXPECT_THAT(refused([&](Json& plan) {
                plan["operations"] = {operation};
                plan["functions"] = {crafted};
              }),
              AllOf(HasSubstr("\"counted\""), HasSubstr("it has 'keep'")));
}

TEST(StrippedProgram, ItsFunctionsTravelAndTheirMiddleDoesNot) {
  TemporaryFolder temporary;
  Program program(test_program("stripped"), {}, temporary.path());
  EXPECT_THAT(program.read_line(), AllOf(StartsWith("42 42 "), HasSubstr("no function starts")));
  program.wait();
}

}  // namespace
}  // namespace manta
