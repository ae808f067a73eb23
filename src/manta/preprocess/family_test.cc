// The common behaviour of preprocessors, and results that no other program could give for
// comparison.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "manta/data/error_terminal_internal.h"
#include "manta/data/sources.h"
#include "manta/data/stream_internal.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/concatenator.h"
#include "manta/preprocess/discretizers.h"
#include "manta/preprocess/encoders.h"
#include "manta/preprocess/function_transformer.h"
#include "manta/preprocess/hash_internal.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/preprocess/repartitioner.h"
#include "manta/preprocess/robust_scaler.h"
#include "manta/preprocess/row_transformers.h"
#include "manta/preprocess/scalers.h"
#include "manta/preprocess/simple_imputer.h"
#include "manta/preprocess/text_preprocessors.h"

namespace manta::preprocess {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

Dataset rows_of(const BatchPtr& batch) { return data::from_arrow({batch}); }

template <class T>
T learned(T preprocessor, const BatchPtr& batch) {
  preprocessor.fit(rows_of(batch));
  return preprocessor;
}

// The column as Arrow prints its JSON-like text, for comparisons.
std::string text_of(const arrow::RecordBatch& batch, const std::string& column) {
  auto array = batch.GetColumnByName(column);
  if (!array) return "none in " + batch.schema()->ToString();
  std::string text;
  for (int64_t i = 0; i < array->length(); ++i) {
    text += str(i == 0 ? "" : " ", check(array->GetScalar(i), "a row")->ToString());
  }
  return text;
}

AnyPreprocessor kept(const Preprocessor& preprocessor) {
  return AnyPreprocessor::from_json(Json::parse(preprocessor.to_json().dump()), "a file");
}

// ---- Passes.

std::atomic<int> batches_read = 0;
BatchPtr count_batch(const BatchPtr& batch) {
  ++batches_read;
  return batch;
}

int passes_of(AnyPreprocessor preprocessor, const BatchPtr& batch) {
  batches_read = 0;
  preprocessor->fit(data::from_arrow({batch}).map_batches(count_batch, {.batch_size = 1000}));
  EXPECT_TRUE(preprocessor->is_fitted());
  return batches_read;
}

BatchPtr people() {
  return batch_of({{"age", arrow::float64(), {20, nullptr, 40, 60}},
                   {"city", arrow::utf8(), {"b", "a", "b", "c"}},
                   {"pay", arrow::int64(), {1, 2, 3, 4}}});
}

TEST(FamilyTest, AChainReadsTheDataAsOftenAsItsPartsDependOnEachOther) {
  EXPECT_EQ(passes_of(StandardScaler({"age", "pay"}), people()), 1);
  // None reads a column that another makes.
  EXPECT_EQ(passes_of(Chain(StandardScaler({"age"}), OneHotEncoder({"city"}), MinMaxScaler({"pay"}),
                            RobustScaler({"pay"}, {.output_columns = {"pay2"}})),
                      people()),
            2)
      << "RobustScaler looks at what MinMaxScaler changes";
  EXPECT_EQ(passes_of(Chain(StandardScaler({"age"}), OneHotEncoder({"city"}),
                            Chain(MinMaxScaler({"pay"}), OrdinalEncoder({"city"}))),
                      people()),
            2)
      << "of what OneHotEncoder makes, lists, categories can be learned, too";
  EXPECT_EQ(passes_of(Chain(StandardScaler({"age"}, {.output_columns = {"age2"}}),
                            OneHotEncoder({"city"}, {.output_columns = {"hot"}}),
                            OrdinalEncoder({"city"}), MaxAbsScaler({"age", "pay"})),
                      people()),
            1);
  // A stateless part costs no pass, but the next part sees its columns.
  Chain powers(PowerTransformer({"pay"}, 2, {.output_columns = {"power"}}), MinMaxScaler({"power"}),
               SimpleImputer({"age"}), StandardScaler({"age", "power"}));
  EXPECT_EQ(passes_of(powers, people()), 2);
  powers.fit(rows_of(people()));
  auto done = powers.transform_batch(people());
  EXPECT_EQ(doubles(*done, "power").size(), 4u);
  EXPECT_NEAR(doubles(*done, "age")[1], 0, 1e-15) << "filled with the mean, then scaled";
  EXPECT_EQ(
      passes_of(SimpleImputer({"city"}, {.strategy = "constant", .fill_value = "?"}), people()), 0);
  EXPECT_EQ(passes_of(Chain({Concatenator({"age", "pay"})}), people()), 0);
}

TEST(FamilyTest, PartsThatShareAPassLearnAsIfEachHadItsOwn) {
  Chain shared(SimpleImputer({"age"}), OrdinalEncoder({"city"}), StandardScaler({"pay"}),
               MinMaxScaler({"age", "city"}));
  shared.fit(rows_of(people()));
  std::vector<AnyPreprocessor> parts = {SimpleImputer({"age"}), OrdinalEncoder({"city"}),
                                        StandardScaler({"pay"}), MinMaxScaler({"age", "city"})};
  Dataset rows = rows_of(people());
  for (auto& part : parts) rows = part->fit_transform(rows);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(shared.parts()[i]->to_json(), parts[i]->to_json());
  }
  EXPECT_TRUE(all_of(rows)->Equals(*shared.transform_batch(people())));
}

TEST(FamilyTest, AChainKnowsWhatIsLeft) {
  Chain chain(OneHotEncoder({"city"}), Concatenator({"city", "age"}, {.flatten = true}));
  EXPECT_THAT(chain.input_columns(), ElementsAre("city", "age"));
  EXPECT_THAT(chain.output_columns(), ElementsAre("concat_out"));
  EXPECT_THAT(chain.removed_columns(), ElementsAre("city", "age"));
  Dataset rows = chain.fit_transform(rows_of(people()));
  EXPECT_THAT(rows.columns(), ElementsAre("pay", "concat_out"));
  EXPECT_EQ(all_of(rows.select_columns({"concat_out"}))->num_columns(), 1);
}

TEST(FamilyTest, ARepartitionerChangesBlocksOnly) {
  Chain chain(StandardScaler({"pay"}), Repartitioner(2), Chain({MinMaxScaler({"pay"})}));
  Dataset rows = chain.fit_transform(rows_of(people()));
  EXPECT_THAT(rows.explain(), HasSubstr("repartition(2)"));
  EXPECT_TRUE(all_of(rows)->Equals(*chain.transform_batch(people())));
  EXPECT_TRUE(kept(chain)->transform_batch(people())->Equals(*all_of(rows)));
  EXPECT_EQ(Repartitioner(3).transform_batch(people())->num_rows(), 4);
  EXPECT_THAT(message_of([] { Repartitioner(0); }), HasSubstr("was 0"));
}

// ---- Unfitted, missing, wrong.

TEST(FamilyTest, NothingIsTransformedBeforeFit) {
  std::vector<AnyPreprocessor> all = {StandardScaler({"pay"}),
                                      MinMaxScaler({"pay"}),
                                      MaxAbsScaler({"pay"}),
                                      RobustScaler({"pay"}),
                                      SimpleImputer({"pay"}),
                                      OrdinalEncoder({"city"}),
                                      OneHotEncoder({"city"}),
                                      MultiHotEncoder({"city"}),
                                      LabelEncoder("city"),
                                      Categorizer({"city"}),
                                      UniformKBinsDiscretizer({"pay"}, 3),
                                      CountVectorizer({"city"}),
                                      Chain(Normalizer({"pay"}), LabelEncoder("city"))};
  for (const auto& one : all) {
    EXPECT_FALSE(one->is_fitted()) << one->to_string();
    Error error = error_of([&] { one->transform_batch(people()); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("is not fitted: call fit(dataset)"));
    EXPECT_THAT(message_of([&] { one->transform(rows_of(people())); }), HasSubstr("not fitted"));
    EXPECT_FALSE(kept(*one)->is_fitted());
    EXPECT_EQ(kept(*one)->to_json(), one->to_json());
    auto other = batch_of({{"other", arrow::int64(), {1}}});
    Error missing = error_of([&] { AnyPreprocessor(one)->fit(rows_of(other)); });
    EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
    auto none = rows_of(people()).filter(col("pay") > 100);
    EXPECT_THAT(message_of([&] { AnyPreprocessor(one)->fit(none); }), HasSubstr("without rows"));
  }
  EXPECT_THAT(message_of([] {
                StandardScaler({"a", "b"}, {.output_columns = {"c"}});
              }),
              HasSubstr("2 columns and 1 output_columns"));
  EXPECT_THAT(message_of([] {
                OneHotEncoder({"a"}, {.max_categories = {{"b", 1}}});
              }),
              HasSubstr("'b'"));
  EXPECT_THAT(message_of([] {
                RobustScaler({"a"}, {.quantile_range = {0.8, 0.2}});
              }),
              HasSubstr("quantile_range"));
  EXPECT_THAT(message_of([] { Normalizer({"a"}, {.norm = "l3"}); }), HasSubstr("\"l3\""));
  EXPECT_THAT(message_of([] { SimpleImputer({"a"}, {.strategy = "median"}); }),
              HasSubstr("\"median\""));
  EXPECT_THAT(message_of([] { SimpleImputer({"a"}, {.strategy = "constant"}); }),
              HasSubstr("fill_value"));
  EXPECT_THAT(message_of([] { SimpleImputer({"a"}, {.fill_value = 3}); }), HasSubstr("constant"));
  EXPECT_THAT(message_of([] { PowerTransformer({"a"}, 1, {.method = "log"}); }), HasSubstr("log"));
  EXPECT_THAT(message_of([] { HashingVectorizer({"a"}, 0); }), HasSubstr("was 0"));
  EXPECT_THAT(message_of([] { Tokenizer({"a"}, {.tokenizer = "nobody"}); }), HasSubstr("nobody"));
  EXPECT_THAT(message_of([] { Concatenator({"a"}, {.dtype = "float16"}); }), HasSubstr("float16"));
  EXPECT_THAT(message_of([] { CustomKBinsDiscretizer({"a"}, {3, 2}); }), HasSubstr("ascend"));
  EXPECT_THAT(message_of([] { CustomKBinsDiscretizer({"a"}, {2, 2, 3}); }), HasSubstr("twice"));
}

TEST(FamilyTest, ValuesThatCannotBeAreErrorsThatNameThem) {
  auto batch = batch_of({{"x", arrow::float64(), {0, 2.5}},
                         {"v", arrow::fixed_size_list(arrow::int64(), 1), {{1}, {2}}},
                         {"bytes", arrow::binary(), {"a", "b"}},
                         {"hole", arrow::int64(), {nullptr, 1}},
                         {"t", arrow::utf8(), {"a", nullptr}}});
  auto failing = [&](AnyPreprocessor one) {
    return message_of([&] {
      one->fit(rows_of(batch));
      one->transform_batch(batch);
    });
  };
  EXPECT_THAT(failing(PowerTransformer({"x"}, 1, {.method = "box-cox"})),
              AllOf(HasSubstr("'x'"), HasSubstr("row 0"), HasSubstr("yeo-johnson")));
  EXPECT_THAT(failing(Concatenator({"v"})), AllOf(HasSubstr("'v'"), HasSubstr("flatten")));
  EXPECT_THAT(failing(Concatenator({"x"}, {.dtype = "int64"})),
              AllOf(HasSubstr("2.5"), HasSubstr("int64")));
  EXPECT_THAT(failing(Concatenator({"hole"})), AllOf(HasSubstr("a null"), HasSubstr("'hole'")));
  EXPECT_THAT(failing(OneHotEncoder({"bytes"})), AllOf(HasSubstr("'bytes'"), HasSubstr("binary")));
  EXPECT_THAT(failing(OneHotEncoder({"hole"})), AllOf(HasSubstr("1 nulls"), HasSubstr("Imputer")));
  EXPECT_THAT(failing(CountVectorizer({"t"})), AllOf(HasSubstr("'t'"), HasSubstr("null")));
  EXPECT_THAT(failing(HashingVectorizer({"x"}, 4)), AllOf(HasSubstr("'x'"), HasSubstr("no text")));
  EXPECT_THAT(failing(SimpleImputer({"hole"}, {.strategy = "constant", .fill_value = 2.5})),
              AllOf(HasSubstr("'hole'"), HasSubstr("2.5")));
  EXPECT_THAT(failing(SimpleImputer({"hole"}, {.strategy = "constant", .fill_value = "x"})),
              HasSubstr("cannot hold"));
}

TEST(FamilyTest, ImputersFillColumnsOfEveryTextTypeAndOfNullsOnly) {
  auto batch =
      batch_of({{"v", arrow::utf8_view(), {"a", nullptr, "a"}},
                {"w", arrow::large_utf8(), {"a", nullptr, "a"}},
                {"d", arrow::dictionary(arrow::int8(), arrow::utf8_view()), {"a", nullptr, "a"}}});
  for (const char* column : {"v", "w", "d"}) {
    auto most = learned(SimpleImputer({column}, {.strategy = "most_frequent"}), batch);
    EXPECT_EQ(text_of(*most.transform_batch(batch), column), "a a a");
    auto constant = SimpleImputer({column}, {.strategy = "constant", .fill_value = "?"});
    EXPECT_EQ(text_of(*constant.transform_batch(batch), column), "a ? a");
  }
  auto nulls = batch_of({{"x", arrow::null(), {nullptr, nullptr}}});
  const std::pair<Json, const char*> fills[] = {
      {"?", "string"}, {true, "bool"}, {7, "int64"}, {2.5, "double"}, {UINT64_MAX, "uint64"}};
  for (const auto& [value, type] : fills) {
    auto imputer = SimpleImputer({"x"}, {.strategy = "constant", .fill_value = value});
    auto filled = all_of(imputer.transform(rows_of(nulls)));
    EXPECT_EQ(filled->schema()->field(0)->type()->ToString(), type);
    EXPECT_EQ(filled->column(0)->null_count(), 0);
    EXPECT_EQ(imputer.transform_batch(nulls->Slice(0, 0))->schema()->field(0)->type()->ToString(),
              type);
  }
}

TEST(FamilyTest, NullAndNaNOfWhatLearnsNothing) {
  arrow::DoubleBuilder builder;
  for (double x : {3.0, 0.0, double(NAN), double(INFINITY)}) {
    check(x == 0 ? builder.AppendNull() : builder.Append(x), "x");
  }
  auto batch = batch_of({{"x", arrow::float64(), {1, 1, 1, 1}},
                         {"y", arrow::float64(), {1, 1, 1, 1}},
                         {"i", arrow::int64(), {-2, nullptr, 0, 5}},
                         {"t", arrow::utf8(), {"a b a", nullptr, "", "b"}}});
  batch = check(
      batch->SetColumn(0, arrow::field("x", arrow::float64()), check(builder.Finish(), "x")), "x");
  // The powers: ((x + 1)^2 - 1) / 2 for x >= 0, -log(1 - x) below.
  auto powers = PowerTransformer({"x", "i"}, 2).transform_batch(batch);
  EXPECT_EQ(text_of(*powers, "x"), "7.5 null nan inf");
  EXPECT_EQ(text_of(*powers, "i"), "-1.0986122886681098 null 0 17.5");
  auto logs = PowerTransformer({"x"}, 0, {.method = "box-cox"}).transform_batch(batch);
  EXPECT_EQ(text_of(*logs, "x"), "1.0986122886681098 null nan inf");
  // One feature has all columns; null and NaN are NaN there.
  auto hashed = FeatureHasher({"x", "y"}, 1, "h").transform_batch(batch);
  const auto& vectors = static_cast<const arrow::FixedSizeListArray&>(*hashed->column(4));
  EXPECT_EQ(vectors.null_count(), 0);
  EXPECT_EQ(vectors.values()->null_count(), 0);
  const auto& sums = static_cast<const arrow::DoubleArray&>(*vectors.values());
  EXPECT_EQ(sums.Value(0), 4);
  EXPECT_TRUE(std::isnan(sums.Value(1)) && std::isnan(sums.Value(2)));
  EXPECT_EQ(sums.Value(3), INFINITY);
  EXPECT_THAT(message_of([&] { HashingVectorizer({"t"}, 4).transform_batch(batch); }),
              AllOf(HasSubstr("'t'"), HasSubstr("null")));
  // An empty text is one empty token, as in Ray.
  auto counts = HashingVectorizer({"t"}, 1).transform_batch(batch->Slice(2));
  EXPECT_EQ(text_of(*counts, "t"),
            "fixed_size_list<item: int64>[1][1] fixed_size_list<item: int64>[1][1]");
}

// ---- Wide vectors.

constexpr int64_t kTokens = 30'000;

std::shared_ptr<arrow::RecordBatch> many_tokens(int64_t rows) {
  arrow::StringBuilder texts;
  arrow::Int64Builder ids;
  for (int64_t row = 0; row < rows; ++row) {
    std::string text;
    for (int64_t i = row; i < kTokens; i += rows) text += str("w", i, " ");
    check(texts.Append(text), "a text");
    check(ids.Append(row), "an id");
  }
  return arrow::RecordBatch::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("t", arrow::utf8())}), rows,
      {check(ids.Finish(), "ids"), check(texts.Finish(), "texts")});
}

// 500 rows of 240 KB each are one window, 120 MB: no more than 32 MiB of them are there at a time.
TEST(FamilyTest, WideVectorsAreMadeAFewAtATime) {
  auto batch = many_tokens(500);
  auto counts = learned(CountVectorizer({"t"}), batch);
  Dataset wide = counts.transform(rows_of(batch));
  auto walk = [&](const Dataset& dataset) {
    data::Stream stream(dataset.plan(), {}, {.threads = 2});
    int64_t rows = 0, blocks = 0;
    while (auto block = stream.next()) {
      EXPECT_LE(block->bytes, 32 << 20);
      EXPECT_EQ(block->first_row, rows);
      auto expected = counts.transform_batch(batch->Slice(rows, block->batch->num_rows()));
      EXPECT_TRUE(block->batch->Equals(*expected));
      rows += block->batch->num_rows();
      ++blocks;
    }
    EXPECT_EQ(rows, 500);
    EXPECT_GE(blocks, 4);
  };
  walk(wide);
  // After a function, whose columns are known only when there are rows.
  walk(counts.transform(rows_of(batch).map_batches([](const BatchPtr& each) { return each; })));
  EXPECT_EQ(wide.count(), 500);
  EXPECT_EQ(all_of(wide.filter(col("id") >= 499).select_columns({"id"}))->num_rows(), 1);
  // Operations after it see the same rows, even if they leave some out.
  auto concatenated = Concatenator({"id", "t"}, {.flatten = true}).transform(wide);
  EXPECT_EQ(concatenated.take(3)->num_rows(), 3);
}

// The largest batch that a preprocessor has seen, in this process.
std::atomic<int64_t> largest_seen = 0;
class WideOnes final : public StatelessPreprocessor {
 public:
  BatchPtr transform_batch(const BatchPtr& batch) const override {
    largest_seen = std::max<int64_t>(largest_seen, batch->num_rows());
    auto ones = check(
        arrow::MakeArrayFromScalar(arrow::Int64Scalar(1), batch->num_rows() * kTokens), "ones");
    auto lists = std::make_shared<arrow::FixedSizeListArray>(
        arrow::fixed_size_list(arrow::int64(), kTokens), batch->num_rows(), ones);
    return check(batch->AddColumn(batch->num_columns(), "ones", lists), "wide ones");
  }
  std::vector<std::string> input_columns() const override { return {}; }
  // It may also make "id", as far as one can tell from outside.
  std::vector<std::string> output_columns() const override { return {"ones", "id"}; }
  std::string name() const override { return "WideOnes"; }
  Json state() const override { return Json::object(); }
  static WideOnes from_state(const Json&) { return {}; }
};
const bool wide_ones_known = register_preprocessor<WideOnes>("WideOnes");

TEST(FamilyTest, FittingBehindWideVectorsSeesAFewAtATime) {
  auto batch = many_tokens(400);
  largest_seen = 0;
  auto chain = Chain(WideOnes(), StandardScaler({"id"}));
  chain.fit(rows_of(batch));
  EXPECT_LE(largest_seen, (32 << 20) / (kTokens * 8));
  EXPECT_GT(largest_seen, 0);
  auto scaled = learned(StandardScaler({"id"}), batch).transform_batch(batch);
  largest_seen = 0;
  EXPECT_EQ(text_of(*all_of(chain.transform(rows_of(batch)).select_columns({"id"})), "id"),
            text_of(*scaled, "id"));
  // After it in the plan, and with a filter after that.
  StandardScaler later({"id"});
  later.fit(WideOnes().transform(rows_of(batch)).filter(col("id") < 200));
  EXPECT_LE(largest_seen, (32 << 20) / (kTokens * 8));
}

// ---- Progress.

TEST(FamilyTest, FittingShowsHowFarItIs) {
  auto slow = data::from_arrow({batch_of({{"x", arrow::float64(), {1, 2}}})})
                  .map_batches([](const BatchPtr& batch) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
                    return batch;
                  });
  std::string text;
  {
    data::ErrorTerminal terminal;
    StandardScaler({"x"}).fit(slow);
    text = terminal.restore();
  }
  EXPECT_THAT(text, HasSubstr("fit of StandardScaler(x): "));
}

// ---- Categories.

TEST(FamilyTest, CategoriesAreExact) {
  Json texts = {"é", "e\u0301", "", std::string("nul\0byte", 8), "\"quoted\"\n", "😀", "日本"};
  Json integers = {INT64_MIN, INT64_MAX,        INT64_MAX - 1,         0,
                   -1,        int64_t{1} << 53, (int64_t{1} << 53) + 1};
  Json big = {UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63, 0, 1, 2, 3};
  auto batch =
      batch_of({{"t", arrow::utf8(), texts},
                {"i", arrow::int64(), integers},
                {"u", arrow::uint64(), big},
                {"f", arrow::float64(), {0.1, 1e300, -5e-324, 0.30000000000000004, 0.3, 2, -7}}});
  OrdinalEncoder encoder = learned(OrdinalEncoder({"t", "i", "u", "f"}), batch);
  auto same = kept(encoder);
  EXPECT_EQ(same->to_json(), encoder.to_json());
  auto coded = same->transform_batch(batch);
  EXPECT_THAT(data::ints(*coded, "i"), ElementsAre(0, 6, 5, 2, 1, 3, 4));
  EXPECT_THAT(data::ints(*coded, "u"), ElementsAre(6, 5, 4, 0, 1, 2, 3));
  EXPECT_THAT(data::ints(*coded, "f"), ElementsAre(2, 6, 1, 4, 3, 5, 0));
  EXPECT_THAT(data::ints(*coded, "t"), testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6));
  auto back = dynamic_cast<const Invertible&>(*same).inverse_transform_batch(coded);
  EXPECT_TRUE(back->Equals(*batch)) << back->ToString();
  // Codes of any numeric type.
  for (const auto& type : {arrow::float16(), arrow::float32(), arrow::float64(), arrow::uint8()}) {
    auto codes = batch_of({{"t", type, {4, 0, nullptr}},
                           {"i", type, {6, 1, 0}},
                           {"u", type, {0, 1, 6}},
                           {"f", type, {5, 6, 0}}});
    auto values = dynamic_cast<const Invertible&>(*same).inverse_transform_batch(codes);
    EXPECT_EQ(text_of(*values, "i"), str(INT64_MAX, " -1 ", INT64_MIN)) << type->ToString();
    EXPECT_EQ(text_of(*values, "f"), "2 1e+300 -7") << type->ToString();
    EXPECT_FALSE(values->GetColumnByName("t")->IsNull(0));
    EXPECT_TRUE(values->GetColumnByName("t")->IsNull(2));
  }
  // Other types with the same numbers; and numbers that are near but not equal.
  auto floats = batch_of({{"t", arrow::large_utf8(), {"", "?"}},
                          {"i", arrow::float64(), {0, 0.5}},
                          {"u", arrow::int32(), {3, -3}},
                          {"f", arrow::int8(), {2, 3}}});
  auto other = same->transform_batch(floats);
  EXPECT_EQ(text_of(*other, "i"), "2 null");
  EXPECT_EQ(text_of(*other, "u"), "3 null");
  EXPECT_EQ(text_of(*other, "f"), "5 null");
  EXPECT_THAT(message_of([&] {
                same->transform_batch(batch_of({{"t", arrow::int64(), {1}},
                                                {"i", arrow::int64(), {1}},
                                                {"u", arrow::int64(), {1}},
                                                {"f", arrow::int64(), {1}}}));
              }),
              AllOf(HasSubstr("'t'"), HasSubstr("int64"), HasSubstr("string")));
}

TEST(FamilyTest, TextThatIsNotUtf8IsNoCategory) {
  arrow::StringBuilder builder;
  check(builder.Append("\xff\xfe"), "a test column");
  auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("t", arrow::utf8())}), 1,
                                        {check(builder.Finish(), "a test column")});
  EXPECT_THAT(message_of([&] { learned(OneHotEncoder({"t"}), batch); }), HasSubstr("not UTF-8"));
  EXPECT_THAT(message_of([&] { learned(CountVectorizer({"t"}), batch); }), HasSubstr("not UTF-8"));
}

TEST(FamilyTest, TiesAreDecidedByOrder) {
  auto batch = batch_of({{"t", arrow::utf8(), {"d", "c", "b", "c", "a", "d", "b"}}});
  auto top = learned(OneHotEncoder({"t"}, {.max_categories = {{"t", 2}}}), batch);
  EXPECT_EQ(top.stats(), Json({{"unique_values(t)", {"b", "c"}}}));
  auto most = learned(SimpleImputer({"t"}, {.strategy = "most_frequent"}), batch);
  EXPECT_EQ(most.stats(), Json({{"most_frequent(t)", "b"}}));
  auto counts = learned(CountVectorizer({"t"}), batch);
  EXPECT_EQ(counts.stats()["token_counts(t)"].dump(), R"([["b",2],["c",2],["d",2],["a",1]])");
}

TEST(FamilyTest, ManyCategories) {
  constexpr int kRows = 300000;
  arrow::StringBuilder texts;
  arrow::Int64Builder integers;
  for (int i = 0; i < kRows; ++i) {
    check(texts.Append(str("category ", i)), "t");
    check(integers.Append(int64_t{i} * 1000003), "i");
  }
  auto batch = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("t", arrow::utf8()), arrow::field("i", arrow::int64())}), kRows,
      {check(texts.Finish(), "t"), check(integers.Finish(), "i")});
  auto encoder = learned(OrdinalEncoder({"t", "i"}), batch);
  auto coded = encoder.transform_batch(batch);
  auto ids = data::ints(*coded, "i");
  for (int i = 0; i < kRows; ++i) ASSERT_EQ(ids[static_cast<size_t>(i)], i);
  EXPECT_TRUE(encoder.inverse_transform_batch(coded)->Equals(*batch));
}

TEST(FamilyTest, ACategorizerMakesDictionaries) {
  auto batch = batch_of({{"t", arrow::utf8(), {"b", nullptr, "a", "b"}}});
  auto categorizer = learned(Categorizer({"t"}), batch);
  auto result = categorizer.transform_batch(batch_of({{"t", arrow::utf8(), {"b", "?", nullptr}}}));
  const auto& column = static_cast<const arrow::DictionaryArray&>(*result->column(0));
  EXPECT_EQ(column.type()->ToString(), "dictionary<values=string, indices=int32, ordered=0>");
  EXPECT_EQ(column.dictionary()->ToString(),
            data::array_from_json(arrow::utf8(), {"a", "b"})->ToString());
  EXPECT_EQ(column.GetValueIndex(0), 1);
  EXPECT_TRUE(column.IsNull(1) && column.IsNull(2));
  auto sizes = learned(Categorizer({"t"}, {.dtypes = {{"t", {"S", "M", "b"}}}}), batch);
  EXPECT_EQ(sizes.stats(), Json({{"unique_values(t)", {"S", "M", "b"}}}));
  EXPECT_THAT(message_of([] {
                Categorizer({"t"}, {.dtypes = {{"t", {"S", "S"}}}});
              }),
              HasSubstr("twice"));
}

// ---- Inverses.

TEST(FamilyTest, ScalersCanBeUndone) {
  auto batch =
      batch_of({{"x", arrow::float64(), {1, 2, nullptr, 8}}, {"y", arrow::int64(), {4, 4, 4, 4}}});
  std::vector<AnyPreprocessor> scalers = {StandardScaler({"x", "y"}), MinMaxScaler({"x", "y"}),
                                          MaxAbsScaler({"x", "y"}), RobustScaler({"x", "y"})};
  for (auto& scaler : scalers) {
    Dataset scaled = scaler->fit_transform(rows_of(batch));
    const auto& invertible = dynamic_cast<const Invertible&>(*scaler);
    Dataset back = invertible.inverse_transform(scaled);
    EXPECT_THAT(back.explain(), HasSubstr("inverse_transform(" + scaler->name()));
    auto rows = all_of(Dataset(data::from_arrow({all_of(back)})));
    EXPECT_THAT(doubles(*rows, "x"), ElementsAre(testing::DoubleEq(1), testing::DoubleEq(2),
                                                 testing::IsNan(), testing::DoubleEq(8)));
    EXPECT_THAT(doubles(*rows, "y"), ElementsAre(4, 4, 4, 4));
  }
  auto apart = learned(MinMaxScaler({"x"}, {.output_columns = {"x01"}}), batch);
  auto both = apart.inverse_transform_batch(apart.transform_batch(batch));
  EXPECT_EQ(both->schema()->field_names(), (std::vector<std::string>{"x", "y", "x01"}));
}

// ---- The user's functions.

BatchPtr double_pay(const BatchPtr& batch, const Json& args) {
  arrow::Int64Builder builder;
  for (int64_t pay : data::ints(*batch, "pay")) {
    check(builder.Append(pay * args.at("factor").get<int64_t>()), "pay");
  }
  return check(batch->AddColumn(batch->num_columns(), "more", check(builder.Finish(), "pay")),
               "pay");
}
const auto named_double_pay = named("family_test_double_pay", double_pay);

BatchPtr drop_a_row(const BatchPtr& batch) {
  return batch->num_rows() > 0 ? batch->Slice(1) : batch;
}
const auto named_drop = named("family_test_drop", drop_a_row);

std::vector<std::string> letters(std::string_view text) {
  std::vector<std::string> tokens;
  for (char letter : text) tokens.emplace_back(1, letter);
  if (text == "!") throw std::runtime_error("no letters");
  return tokens;
}
[[maybe_unused]] const bool letters_known = register_tokenizer("family_test_letters", letters);

TEST(FamilyTest, FunctionsArePartOfAChain) {
  Chain chain(
      FunctionTransformer({"pay"}, named_double_pay, {{"factor", 3}}, {.output_columns = {"more"}}),
      MinMaxScaler({"more"}));
  Dataset rows = chain.fit_transform(rows_of(people()));
  EXPECT_THAT(doubles(*all_of(rows), "more"), ElementsAre(0, 1 / 3., 2 / 3., 1));
  EXPECT_THAT(rows.explain(), HasSubstr("family_test_double_pay"));
  EXPECT_TRUE(kept(chain)->transform_batch(people())->Equals(*all_of(rows)));
  auto dropping = BatchMapper({"pay"}, named_drop).transform(rows_of(people()));
  EXPECT_THAT(message_of([&] { dropping.to_table(); }), HasSubstr("made 3 rows of 4"));
  Json unknown = chain.to_json();
  unknown["state"]["parts"][0]["state"]["function"]["name"] = "nobody";
  EXPECT_THAT(message_of([&] { AnyPreprocessor::from_json(unknown, "'x'"); }), HasSubstr("nobody"));
}

TEST(FamilyTest, TokenizersAreFoundByName) {
  auto batch = batch_of({{"t", arrow::utf8(), {"abb", "", nullptr}}});
  Tokenizer tokenizer({"t"}, {.tokenizer = "family_test_letters"});
  auto tokens = kept(tokenizer)->transform_batch(batch);
  const auto& lists = static_cast<const arrow::ListArray&>(*tokens->column(0));
  EXPECT_EQ(lists.value_length(0), 3);
  EXPECT_EQ(lists.value_length(1), 0);
  EXPECT_TRUE(lists.IsNull(2));
  auto counts =
      learned(CountVectorizer({"t"}, {.tokenizer = "family_test_letters"}), batch->Slice(0, 2));
  EXPECT_EQ(counts.stats()["token_counts(t)"].dump(), R"([["b",2],["a",1]])");
  auto odd = batch_of({{"t", arrow::utf8(), {"!"}}});
  Error error = error_of([&] { tokenizer.transform_batch(odd); });
  EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no letters"), HasSubstr("'t'")));
}

TEST(FamilyTest, TheHashIsSha256) {
  auto hex = [](std::string_view bytes) {
    std::string text;
    for (uint8_t byte : sha256(bytes)) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(std::string(1000, 'a')),
            "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
  EXPECT_EQ(hex(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(hex(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
}

// ---- Files.

TEST(FamilyTest, WhatAFileSaysIsChecked) {
  struct {
    const char* name;
    const char* state;
    const char* message;
  } cases[] = {
      {"OneHotEncoder", R"({"columns": ["a"], "categories": []})", "1 lists, one for each column"},
      {"OneHotEncoder", R"({"columns": ["a"], "categories": [{"type": "x", "values": []}]})",
       "type"},
      {"OneHotEncoder", R"({"columns": ["a"], "categories": [{"type": "int64", "values": ["x"]}]})",
       "not of type int64"},
      {"OneHotEncoder",
       R"({"columns": ["a"], "categories": [{"type": "int64", "values": [1, 1]}]})", "twice"},
      {"OneHotEncoder",
       R"({"columns": ["a"], "categories": [{"type": "int64", "values": [18446744073709551615]}]})",
       "not of type int64"},
      {"OneHotEncoder", R"({"columns": ["a"], "max_categories": {"a": -1}})", "max_categories"},
      {"LabelEncoder", R"({"columns": ["a", "b"]})", "one column"},
      {"SimpleImputer", R"({"columns": ["a"], "strategy": "mean", "fills": ["x"]})", "fills"},
      {"RobustScaler", R"({"columns": ["a"], "quantile_range": [0.25, 0.75], "median": [1],
                           "low_quantile": [2], "high_quantile": [3]})",
       "between"},
      {"UniformKBinsDiscretizer", R"({"columns": ["a"], "bins": {"a": 3}, "right": true,
          "include_lowest": true, "duplicates": "raise", "edges": [[3, 1]]})",
       "ascend"},
      {"CustomKBinsDiscretizer", R"({"columns": ["a"], "right": true, "include_lowest": true,
          "duplicates": "raise", "edges": [[1, "x"]]})",
       "edges"},
      {"CountVectorizer", R"({"columns": ["a"], "tokenizer": "", "max_features": 0,
          "vocabularies": [{"tokens": ["x", "x"], "counts": [1, 2]}]})",
       "each once"},
      {"HashingVectorizer", R"({"columns": ["a"], "tokenizer": "", "num_features": 1e9})", "num_f"},
      {"MaxAbsScaler", R"({"columns": ["a"], "abs_max": [-1]})", "negative"},
      {"Concatenator", R"({"columns": ["a"], "output_column_name": "a", "dtype": "x",
          "flatten": false})",
       "dtype"},
  };
  for (const auto& one : cases) {
    Json json = {{"version", 1}, {"name", one.name}, {"state", Json::parse(one.state)}};
    EXPECT_THAT(message_of([&] { AnyPreprocessor::from_json(json, "'x.json'"); }),
                AllOf(HasSubstr("'x.json'"), HasSubstr(one.message)));
  }
}

}  // namespace
}  // namespace manta::preprocess
