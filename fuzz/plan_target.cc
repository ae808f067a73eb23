// The plan of a data set as JSON. No file is opened.

#include <manta/base/json_input_internal.h>
#include <manta/data/plan_internal.h>

#include "target.h"

namespace manta::fuzz::plan {

void run(std::string_view input) {
  Json json = parse_json(input, "the input", {.depth = 2000});
  auto plan = data::Plan::from_json(json);
  for (const auto& operation : plan->operations) operation->to_string();
}

std::vector<std::string> seeds() {
  const std::string source =
      R"("version":1,"source":{"files":[{"path":"/a.parquet","row_groups":[100,50]}],"columns":[]},)";
  return {"{" + source + R"("columns":["a","b"],"operations":[]})",
          "{" + source + R"("columns":["a","b"],"operations":[
        {"op":"drop_na","columns":[]},
        {"op":"split","part":"train","shuffle":true,"seed":1,"rows":[90,40],"test_rows":[9,4]},
        {"op":"select_columns","columns":["a"]},
        {"op":"window_shuffle","rows":1000,"seed":7}]})"};
}

}  // namespace manta::fuzz::plan
