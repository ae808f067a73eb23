// A preprocessor as stored in a checkpoint, applied to a few rows.

#include <arrow/api.h>
#include <manta/base/json_input_internal.h>
#include <manta/preprocess/preprocessor.h>

#include "target.h"

namespace manta::fuzz::preprocessor {
namespace {

std::shared_ptr<arrow::RecordBatch> rows() {
  arrow::Int64Builder integers;
  arrow::DoubleBuilder numbers;
  arrow::StringBuilder texts;
  bool made = integers.AppendValues({1, -7, INT64_MAX}).ok() &&
              numbers.AppendValues({0.5, -1e300, 3}).ok() &&
              texts.AppendValues({"x", "", "y z"}).ok();
  auto elements = std::make_shared<arrow::Int64Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), elements);
  for (int64_t i = 0; i < 3; ++i) made = made && lists.Append().ok() && elements->Append(i).ok();
  if (!made) return nullptr;
  return arrow::RecordBatch::Make(
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::float64()),
                     arrow::field("c", arrow::utf8()),
                     arrow::field("d", arrow::list(arrow::int64()))}),
      3, {*integers.Finish(), *numbers.Finish(), *texts.Finish(), *lists.Finish()});
}

std::string part(const std::string& name, const std::string& state) {
  return R"({"version":1,"name":")" + name + R"(","state":)" + state + "}";
}

}  // namespace

void run(std::string_view input) {
  static const auto batch = rows();
  auto preprocessor =
      AnyPreprocessor::from_json(parse_json(input, "the input", {.depth = 2000}), "the input");
  preprocessor->to_string();
  // What was read can be written, and read again.
  Json written = preprocessor->to_json();
  AnyPreprocessor::from_json(written, "what was written");
  if (!preprocessor->is_fitted()) return;
  internal::transform_rows(*preprocessor, batch);
}

std::vector<std::string> seeds() {
  std::vector<std::string> all = {
      part("StandardScaler", R"({"columns":["a","b"],"mean":[1.5,2],"std":[2,0]})"),
      part("MinMaxScaler", R"({"columns":["a"],"output_columns":["d"],"min":[1],"max":[2.5]})"),
      part("MaxAbsScaler", R"({"columns":["b"],"abs_max":[3]})"),
      part("RobustScaler", R"({"columns":["b"],"quantile_range":[0.25,0.75],"low_quantile":[1],
           "median":[2],"high_quantile":[3]})"),
      part("Normalizer", R"({"columns":["a","b"],"norm":"l2"})"),
      part("PowerTransformer", R"({"columns":["b"],"power":0.5,"method":"yeo-johnson"})"),
      part("SimpleImputer", R"({"columns":["a"],"strategy":"most_frequent","fills":[7]})"),
      part("SimpleImputer", R"({"columns":["c"],"strategy":"constant","fill_value":"?"})"),
      part("OrdinalEncoder", R"({"columns":["a","c"],"encode_lists":true,"categories":[
           {"type":"int64","values":[-7,1,9223372036854775807]},{"type":"string","values":["x","y"]}]})"),
      part("OneHotEncoder", R"({"columns":["b"],"max_categories":{"b":2},"categories":[
           {"type":"float64","values":[0.5,3]}]})"),
      part("MultiHotEncoder", R"({"columns":["a"],"categories":[{"type":"uint64","values":
           [1,18446744073709551615]}]})"),
      part("LabelEncoder", R"({"columns":["c"],"categories":[{"type":"string","values":["x"]}]})"),
      part("LabelEncoder",
           R"({"columns":["d"],"categories":[{"type":"list","values":[[1],["x",2]]}]})"),
      part("Categorizer", R"({"columns":["c"],"dtypes":{"c":["y","x"]},"categories":[
           {"type":"string","values":["y","x"]}]})"),
      part("UniformKBinsDiscretizer", R"({"columns":["b"],"bins":{"b":2},"right":true,
           "include_lowest":false,"duplicates":"drop","dtypes":{"b":["low","high"]},"edges":[[0,1,2]]})"),
      part("CustomKBinsDiscretizer", R"({"columns":["a"],"right":false,"include_lowest":true,
           "duplicates":"raise","edges":[["-inf",0,"inf"]]})"),
      part("Tokenizer", R"({"columns":["c"],"tokenizer":""})"),
      part("CountVectorizer", R"({"columns":["c"],"tokenizer":"","max_features":2,"vocabularies":[
           {"tokens":["x","y"],"counts":[2,1]}]})"),
      part("HashingVectorizer", R"({"columns":["c"],"num_features":8,"tokenizer":""})"),
      part("FeatureHasher", R"({"columns":["a","b"],"num_features":4,"output_column":"h"})"),
      part("Concatenator", R"({"columns":["a","b"],"output_column_name":"v","dtype":"float32",
           "flatten":true})"),
  };
  all.push_back(part("Repartitioner", R"({"num_partitions":2})"));
  all.push_back(part("Chain", R"({"parts":[)" + all[0] + "," + all[9] + "]}"));
  return all;
}

}  // namespace manta::fuzz::preprocessor
