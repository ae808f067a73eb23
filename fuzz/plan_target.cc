// The plan of a data set as JSON. No file is opened.

#include <manta/base/json_input_internal.h>
#include <manta/data/dataset.h>
#include <manta/data/grouped.h>
#include <manta/data/plan_internal.h>
#include <manta/data/sources.h>
#include <manta/preprocess/preprocessor.h>

#include "target.h"

namespace manta::fuzz::plan {
namespace {

std::shared_ptr<arrow::RecordBatch> keep(const std::shared_ptr<arrow::RecordBatch>& batch,
                                         const Json&) {
  return batch;
}
const auto named_keep = named("fuzz_keep", keep);
const auto named_row = named("fuzz_row", [](const Row& row) { return row; });
const auto named_stays = named("fuzz_stays", [](const Row& row) { return row.has("a"); });

// Plans of the operations on all rows, and of the newer sources, as they are written today.
void add_written(std::vector<std::string>& all) {
  Dataset rows = data::range(100).with_column("b", col("id") * 0.5);
  std::vector<Dataset> written = {
      rows.sort({"id", "b"}, {.descending_keys = {true, false}, .nulls = Nulls::kFirst}),
      rows.random_shuffle({.seed = 1, .reshuffle_each_epoch = true}).repartition(3),
      rows.randomize_block_order({.seed = 2}).repeat(3),
      rows.groupby("id").aggregate({agg::mean("b"), agg::quantile("b", 0.5).as("p"), agg::count()}),
      rows.groupby({"id", "b"}).map_groups(named_keep, {{"x", 1}}),
      rows.join(rows.filter(col("b") < 3), "id", {.type = JoinType::kLeft, .right_suffix = "_r"}),
      rows.union_with(rows.window_shuffle({.rows = 10, .seed = 3})),
      rows.zip(rows.select_columns({"id"})).repeat(),
      rows.map_batches(named_keep, {{"x", 1}}, {.batch_size = 7, .concurrency = 2}),
  };
  const std::string name = "fuzz-plan";
  auto file = [&](const std::string& ending, std::string_view bytes) {
    return scratch_file(name + ending, bytes);
  };
  written.push_back(data::read_json(file(".jsonl", "{\"a\": [1, 2], \"o\": {\"x\": true}}\n")));
  written.push_back(data::read_text(file(".txt", "a\n\nb\n"), {.drop_empty_lines = true}));
  written.push_back(data::read_binary_files(file(".bin", "ab"), {.include_paths = true}));
  for (const auto& dataset : written) {
    std::string json = dataset.to_json().dump();
    // The folder differs between processes, but the inputs should not.
    for (size_t at; (at = json.find(scratch_folder())) != std::string::npos;) {
      json.replace(at, scratch_folder().size(), "/folder");
    }
    all.push_back(std::move(json));
  }
}

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
  std::vector<std::string> all = {
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
        "functions":[{"name":"fuzz_keep","args":{"x":[1,2]}}]})",
      "{" + source + R"("columns":["a","b"],"operations":[
        {"op":"limit","rows":[100,20]},
        {"op":"rename_columns","from":["a"],"to":["c"]},
        {"op":"fill_na","value":)" +
          lit(0).to_json().dump() + R"(,"columns":["c"]},
        {"op":"random_sample","fraction":0.5,"seed":3},
        {"op":"filter_rows","function":1},{"op":"map_rows","function":0},
        {"op":"limit_all","rows":7},
        {"op":"split_all","part":"test","shuffle":true,"seed":1,"all_rows":7,"test_rows":2}],
        "functions":[{"name":"fuzz_row"},{"name":"fuzz_stays"}]})",
      R"({"version":1,"source":{"name":"partitioned","keys":["year","city"],"values":[["2020",null]],
        "source":{"name":"parquet","files":[{"path":"/year=2020/a.parquet","row_groups":[10],"size":900,
        "footer":"0123456789abcdef"}],"columns":[]}},"columns":["a","year"],"operations":[]})",
      R"({"version":1,"source":{"name":"sql","path":"/a.db","query":"SELECT a FROM t","size":10,
        "modified":5,"names":["a"],"types":["int64"],"rows":100000},"columns":["a"],"operations":[]})"};
  add_written(all);
  return all;
}

}  // namespace manta::fuzz::plan
