#include "manta/preprocess/preprocessor.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/preprocess/scalers.h"

namespace manta::preprocess {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A user's preprocessor: adds a column, and has nothing to learn. Does odd things if told to.
class Plus final : public Preprocessor {
 public:
  Plus(double number, std::string does) : number_(number), does_(std::move(does)) {}
  void fit(const Dataset&) override {}
  bool is_fitted() const override { return true; }
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override {
    if (does_ == "throw" && batch->num_rows() > 0) throw std::out_of_range("too far");
    if (does_ == "nothing" && batch->num_rows() > 0) return nullptr;
    if (does_ == "drop" && batch->num_rows() > 0) return batch->Slice(1);
    arrow::DoubleBuilder builder;
    for (double x : doubles(*batch, "x")) check(builder.Append(x + number_), "plus");
    return check(batch->AddColumn(batch->num_columns(), "plus", check(builder.Finish(), "plus")),
                 "plus");
  }
  std::vector<std::string> input_columns() const override { return {"x"}; }
  std::vector<std::string> output_columns() const override { return {"plus"}; }
  std::string name() const override { return does_ == "unknown" ? "Unknown" : "Plus"; }
  Json state() const override { return {{"number", number_}, {"does", does_}}; }
  static Plus from_state(const Json& state) { return Plus(state.at("number"), state.at("does")); }

 private:
  double number_;
  std::string does_;
};

[[maybe_unused]] const bool plus_is_known = register_preprocessor<Plus>("Plus");

// Writes the file: once for each folder.
Dataset numbers(data::ParquetFolder& folder) {
  return dataset_of(
      folder,
      *batch_of({{"x", arrow::float64(), {1, 2, 3, 4}}, {"y", arrow::float64(), {10, 20, 10, 20}}}),
      2);
}

TEST(PreprocessorTest, AChainFitsEachPartToWhatThoseBeforeItMake) {
  data::ParquetFolder folder;
  Chain chain(Plus(10, ""), MinMaxScaler({"plus", "x"}),
              Chain(StandardScaler({"y"}), MinMaxScaler({"y"})));
  EXPECT_FALSE(chain.is_fitted());
  Dataset dataset = numbers(folder);
  Dataset result = chain.fit_transform(dataset);
  EXPECT_TRUE(chain.is_fitted());
  auto batch = all_of(result);
  EXPECT_THAT(result.columns(), ElementsAre("x", "y", "plus"));
  EXPECT_THAT(doubles(*batch, "plus"), ElementsAre(0, 1 / 3., 2 / 3., 1));
  EXPECT_THAT(doubles(*batch, "y"), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(chain.input_columns(), testing::ElementsAre("x", "y")) << "not what a part makes";
  EXPECT_THAT(chain.output_columns(), testing::ElementsAre("plus", "x", "y"));
  EXPECT_THAT(result.explain(), HasSubstr("transform(Chain(Plus(x), MinMaxScaler(plus, x), "
                                          "Chain(StandardScaler(y), MinMaxScaler(y))))"));
  EXPECT_THAT(doubles(*all_of(result.select_columns({"plus"})), "plus"),
              ElementsAre(0, 1 / 3., 2 / 3., 1));

  auto kept = AnyPreprocessor::from_json(Json::parse(chain.to_json().dump()), "a test");
  EXPECT_EQ(kept->to_json(), chain.to_json());
  auto again = kept->transform_batch(all_of(dataset));
  EXPECT_TRUE(again->Equals(*batch));
}

TEST(PreprocessorTest, AChainThatCannotBeFittedStaysAsItWas) {
  data::ParquetFolder folder;
  Chain chain(StandardScaler({"x"}), MinMaxScaler({"nowhere"}));
  Dataset dataset = numbers(folder);
  EXPECT_THAT(message_of([&] { chain.fit(dataset); }), HasSubstr("'nowhere'"));
  EXPECT_FALSE(chain.parts()[0]->is_fitted());
  EXPECT_THAT(message_of([&] { chain.transform(dataset); }), HasSubstr("not fitted"));
  EXPECT_THAT(message_of([] { Chain({}); }), HasSubstr("no preprocessors"));
  EXPECT_THAT(message_of([] { Chain({StandardScaler({"x"}), {}}); }), HasSubstr("part 1"));
}

TEST(PreprocessorTest, CopiesAreIndependent) {
  data::ParquetFolder folder;
  AnyPreprocessor none;
  EXPECT_FALSE(none);
  AnyPreprocessor first = StandardScaler({"x"});
  AnyPreprocessor second = first;
  second->fit(numbers(folder));
  EXPECT_FALSE(first->is_fitted());
  EXPECT_TRUE(second->is_fitted());
  first = second;
  EXPECT_TRUE(first->is_fitted());
  first = none;
  EXPECT_FALSE(first);
}

TEST(PreprocessorTest, APlanKeepsWhatWasLearnedWhenItWasMade) {
  data::ParquetFolder folder;
  Dataset dataset = numbers(folder);
  MinMaxScaler scaler({"x"});
  Dataset result = scaler.fit_transform(dataset);
  scaler.fit(dataset.filter(col("x") < 3));
  EXPECT_THAT(doubles(*all_of(result), "x"), ElementsAre(0, 1 / 3., 2 / 3., 1));
  Dataset read_back = Dataset::from_json(Json::parse(result.to_json().dump()));
  EXPECT_TRUE(all_of(read_back)->Equals(*all_of(result)));
}

TEST(PreprocessorTest, SplitsAndShufflesFollowATransform) {
  data::ParquetFolder folder;
  Dataset result = MinMaxScaler({"x"}).fit_transform(numbers(folder));
  auto [train, test] = result.train_test_split(0.5);
  EXPECT_THAT(doubles(*all_of(test), "x"), ElementsAre(2 / 3., 1));
  EXPECT_THAT(doubles(*all_of(result.window_shuffle({.seed = 1})), "x"),
              testing::UnorderedElementsAre(0, 1 / 3., 2 / 3., 1));
}

TEST(PreprocessorTest, WhatAUsersClassDoesWrongIsAnErrorThatNamesIt) {
  data::ParquetFolder folder;
  Dataset dataset = numbers(folder);
  auto reading = [&](const std::string& does) {
    return error_of([&] { Plus(1, does).transform(dataset).to_table(); });
  };
  EXPECT_EQ(reading("throw").kind(), ErrorKind::kUserCode);
  EXPECT_THAT(reading("throw").what(),
              AllOf(HasSubstr("Plus(x)"), HasSubstr("too far"), HasSubstr("a.parquet")));
  EXPECT_THAT(reading("nothing").what(), HasSubstr("no batch"));
  EXPECT_THAT(reading("drop").what(), HasSubstr("made 1 rows of 2"));
  Error unknown = reading("unknown");
  EXPECT_EQ(unknown.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(unknown.what(),
              AllOf(HasSubstr("'Unknown' is not registered"), HasSubstr("register_preprocessor<")));
}

TEST(PreprocessorTest, WhatIsReadIsChecked) {
  struct {
    const char* text;
    ErrorKind kind;
    const char* message;
  } cases[] = {
      {"[]", ErrorKind::kCorrupt, "'x.json' is not a preprocessor"},
      {R"({"version": 2, "name": "Plus", "state": {}})", ErrorKind::kCorrupt, "version is 2"},
      {R"({"version": 1, "name": "Nobody", "state": {}})", ErrorKind::kNotFound, "'Nobody'"},
      {R"({"version": 1, "name": "Plus", "state": {}})", ErrorKind::kCorrupt, "state of 'Plus'"},
      {R"({"version": 1, "name": "StandardScaler", "state": 3})", ErrorKind::kCorrupt, "is 3"},
      {R"({"version": 1, "name": "StandardScaler", "state": {"columns": []}})",
       ErrorKind::kInvalidArgument, "no columns"},
      {R"({"version": 1, "name": "StandardScaler", "state": {"columns": ["a"], "mean": [1]}})",
       ErrorKind::kCorrupt, "std"},
      {R"({"version": 1, "name": "StandardScaler",
           "state": {"columns": ["a"], "mean": [1], "std": [1, 2]}})",
       ErrorKind::kCorrupt, "1 finite numbers"},
      {R"({"version": 1, "name": "MinMaxScaler",
           "state": {"columns": ["a"], "min": ["x"], "max": [1]}})",
       ErrorKind::kCorrupt, "min"},
      {R"({"version": 1, "name": "StandardScaler",
           "state": {"columns": ["a"], "mean": [1], "std": [-2]}})",
       ErrorKind::kCorrupt, "no negative number"},
      {R"({"version": 1, "name": "StandardScaler", "state": {"columns": ["a"], "std": [2]}})",
       ErrorKind::kCorrupt, "mean is missing"},
      {R"({"version": 1, "name": "MinMaxScaler",
           "state": {"columns": ["a"], "min": [3], "max": [1]}})",
       ErrorKind::kCorrupt, "from min on"},
      {R"({"version": 1, "name": "MinMaxScaler",
           "state": {"columns": ["a"], "min": [-1.7e308], "max": [1.7e308]}})",
       ErrorKind::kCorrupt, "finite distances"},
      {R"({"version": 1, "name": "Chain", "state": {"parts": [{"version": 1, "name": "Chain",
           "state": {"parts": [7]}}]}})",
       ErrorKind::kCorrupt, "part 0, state of 'Chain': part 0 is not a preprocessor: 7"},
  };
  for (const auto& one : cases) {
    Error error = error_of([&] { AnyPreprocessor::from_json(Json::parse(one.text), "'x.json'"); });
    EXPECT_EQ(kind_name(error.kind()), kind_name(one.kind)) << error.what();
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'x.json'"), HasSubstr(one.message)));
  }
  // A preprocessor that is not fitted can be read, too.
  auto fresh = AnyPreprocessor::from_json(StandardScaler({"a"}).to_json(), "a test");
  EXPECT_FALSE(fresh->is_fitted());
}

TEST(PreprocessorTest, ChainsInsideEachOtherDoNotUseUpTheStack) {
  Json json = StandardScaler({"a"}).to_json();
  for (int i = 0; i < 20000; ++i) {
    Json parts = Json::array();
    parts.push_back(std::move(json));
    json = {{"version", 1}, {"name", "Chain"}, {"state", {{"parts", std::move(parts)}}}};
  }
  EXPECT_THAT(message_of([&] { AnyPreprocessor::from_json(json, "'x.json'"); }),
              AllOf(HasSubstr("'x.json'"), HasSubstr("inside each other")));
}

// A user's class may draw random numbers: its results are not kept for the next epoch.
TEST(PreprocessorTest, IsAskedAgainInEachEpoch) {
  data::ParquetFolder folder;
  Dataset dataset = Plus(1, "").transform(numbers(folder));
  const auto& last = *dataset.plan()->operations.back();
  EXPECT_FALSE(dynamic_cast<const data::RowOperation&>(last).repeats());
}

}  // namespace
}  // namespace manta::preprocess
