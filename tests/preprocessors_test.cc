// One chain from raw rows, with strings and nulls, to a model: trained, kept, predicted in batch
// and served, with the same bits everywhere.

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include "manta/data/parquet_fixture_internal.h"
#include "manta/io/http_client_internal.h"

namespace manta {
namespace {

std::vector<Json> customers(int rows) {
  const char* cities[] = {"Köln", "Paris", "東京", ""};
  const char* sizes[] = {"S", "M", "L"};
  std::vector<Json> items;
  for (int i = 0; i < rows; ++i) {
    Json age = i % 7 == 3 ? Json() : Json(20 + i % 41);
    items.push_back({{"city", cities[i * 5 % 4]},
                     {"size", sizes[i % 3]},
                     {"age", age},
                     {"fare", 0.5 * (i % 13)},
                     {"target", (i * 5 % 4 == 1) != (i % 13 > 8) ? 1 : 0}});
  }
  return items;
}

std::vector<float> floats_of(const arrow::Table& table) {
  std::vector<float> values;
  for (const auto& chunk : table.GetColumnByName("predictions")->chunks()) {
    const auto& array = static_cast<const arrow::FloatArray&>(*chunk);
    values.insert(values.end(), array.raw_values(), array.raw_values() + array.length());
  }
  return values;
}

TEST(Preprocessors, AChainOfCategoriesIsTheSameInTrainingPredictionAndServing) {
  data::ParquetFolder folder;
  Dataset rows = data::from_items(customers(200));
  Chain chain(SimpleImputer({"age"}), OneHotEncoder({"city"}), OrdinalEncoder({"size"}),
              StandardScaler({"age", "fare"}),
              Concatenator({"city", "size", "age", "fare"}, {.dtype = "float32", .flatten = true}));
  XGBoostTrainer trainer(
      {.params = {{"objective", "binary:logistic"}, {"max_depth", 3}},
       .label_column = "target",
       .num_boost_round = 5,
       .datasets = {{"train", rows}, {"valid", data::from_items(customers(50))}},
       .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}},
       .run_config = {.name = "run", .storage_path = folder.file("runs"), .verbose = false},
       .preprocessor = chain});
  Result result = trainer.fit();
  EXPECT_LT(result.metrics.at("train-logloss").get<double>(), 0.6);

  // The checkpoint's own preprocessor makes the rows that the model saw.
  AnyPreprocessor kept = result.checkpoint.get_preprocessor();
  ASSERT_TRUE(kept);
  auto features = kept->transform(rows).to_table();
  EXPECT_EQ(features->schema()->ToString(),
            "target: int64\nconcat_out: fixed_size_list<item: float>[7]");
  auto predictor = XGBoostPredictor::from_checkpoint(result.checkpoint);
  EXPECT_THAT(predictor.feature_columns(), testing::ElementsAre("concat_out"));
  EXPECT_THAT(predictor.input_columns(), testing::ElementsAre("age", "city", "size", "fare"));

  Dataset raw = rows.drop_columns({"target"});
  auto batch_predictor = BatchPredictor::from_checkpoint<XGBoostPredictor>(result.checkpoint);
  auto in_batches = floats_of(*batch_predictor.predict(raw).to_table());
  ASSERT_EQ(in_batches.size(), 200u);
  auto all = raw.to_table()->CombineChunksToBatch().ValueOrDie();
  for (int64_t i = 0; i < all->num_rows(); ++i) {
    auto one = predictor.predict(all->Slice(i, 1))->column(0);
    EXPECT_EQ(static_cast<const arrow::FloatArray&>(*one).Value(0),
              in_batches[static_cast<size_t>(i)]);
  }

  serve::start({.http = {.port = 0}});
  auto deployment = PredictorDeployment::options({.name = "customers", .resources = {.cpus = 0.5}});
  deployment.deploy<XGBoostPredictor>(result.checkpoint, {.http_adapter = serve::json_columns});
  HttpClient client(deployment.url());
  auto items = customers(20);
  for (size_t i = 0; i < items.size(); ++i) {
    Json request;
    for (const auto& [name, value] : items[i].items()) {
      if (name != "target") request[name] = {value};
    }
    auto answer = client.post(request.dump());
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json::parse(answer.body).at("predictions").at(0).get<float>(), in_batches[i]);
  }
  // An unseen city is not an error: it counts as none of the seen ones.
  EXPECT_EQ(client.post(R"({"city":["Oslo"],"size":["M"],"age":[null],"fare":[2]})").status, 200);
  auto wrong = client.post(R"({"city":[null],"size":["M"],"age":[1],"fare":[2]})");
  EXPECT_EQ(wrong.status, 400) << wrong.body;
  EXPECT_THAT(wrong.body, testing::HasSubstr("'city'"));
  serve::shutdown();
}

}  // namespace
}  // namespace manta
