// The plan of a data set as JSON. No file is opened.

#include <manta/base/json_input_internal.h>
#include <manta/data/dataset.h>
#include <manta/data/plan_internal.h>
#include <manta/preprocess/preprocessor.h>

#include "target.h"

namespace manta::fuzz::plan {
namespace {

std::shared_ptr<arrow::RecordBatch> keep(const std::shared_ptr<arrow::RecordBatch>& batch,
                                         const Json&) {
  return batch;
}
const auto named_keep = named("fuzz_keep", keep);

}  // namespace

void run(std::string_view input) {
  Json json = parse_json(input, "the input", {.depth = 2000});
  auto plan = data::Plan::from_json(json);
  for (const auto& operation : plan->operations) operation->to_string();
}

std::vector<std::string> seeds() {
  const std::string source =
      R"("version":1,"source":{"files":[{"path":"/a.parquet","row_groups":[100,50],"size":900,)"
      R"("footer":"0123456789abcdef"}],"columns":[]},)";
  return {
      "{" + source + R"("columns":["a","b"],"operations":[]})",
      "{" + source + R"("columns":["a","b"],"operations":[
        {"op":"drop_na","columns":[]},
        {"op":"split","part":"train","shuffle":true,"seed":1,"rows":[90,40],"test_rows":[9,4]},
        {"op":"select_columns","columns":["a"]},
        {"op":"window_shuffle","rows":1000,"seed":7}]})",
      R"({"version":1,"source":{"name":"csv","files":[{"path":"/a.csv","size":90,"checksum":"01",
        "offsets":[4,50,90],"checksums":["02","03"]}],"names":["a","b"],"types":["int64","string"],"header":true,"given":["b"],
        "columns":["b","a"],"delimiter":",","quote":"\"","null_values":[""],"fragment_bytes":50,
        "strings_can_be_null":false,"quoted_can_be_null":false,"sample_rows":10,"sample_bytes":86},
        "columns":["a"],"operations":[
        {"op":"preprocess","preprocessor":{"version":1,"name":"Chain","state":{"parts":[{"version":1,
        "name":"StandardScaler","state":{"columns":["a"],"mean":[1.5],"std":[2]}}]}}}]})",
      "{" + source + R"("columns":["a","b"],"operations":[
        {"op":"filter","expression":)" +
          (col("a") < 3 && col("b") == "x" && !col("a").is_null()).to_json().dump() + R"(},
        {"op":"with_column","name":"c","expression":)" +
          (col("a").cast("float64") / 2).to_json().dump() + R"(},
        {"op":"map_batches","function":0,"rows":10},
        {"op":"drop_columns","columns":["b"]}],
        "functions":[{"name":"fuzz_keep","args":{"x":[1,2]}}]})"};
}

}  // namespace manta::fuzz::plan
