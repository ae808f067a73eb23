// A file of JSON lines. However it is cut into parts, the rows are the same.

#include <arrow/api.h>
#include <manta/base/error_internal.h>
#include <manta/data/plan_internal.h>
#include <manta/data/sources.h>

#include "target.h"

namespace manta::fuzz::json_lines {
namespace {

// The number of rows; -1 if the file cannot be read.
int64_t rows_of(const std::string& path, int64_t fragment_bytes) {
  try {
    auto plan = data::read_json(path, {.fragment_bytes = fragment_bytes}).plan();
    int64_t rows = 0;
    for (size_t i = 0; i < plan->source->fragments().size(); ++i) {
      plan->source->read(i, plan->columns, 1000, [&](const data::BatchPtr& batch) {
        MANTA_CHECK(batch->ValidateFull().ok(), "a damaged batch of JSON lines");
        rows += batch->num_rows();
      });
    }
    return rows;
  } catch (const Error&) {
    return -1;
  }
}

}  // namespace

void run(std::string_view input) {
  std::string path = scratch_file("a.json", input);
  int64_t rows = rows_of(path, 8 << 20);
  MANTA_CHECK(rows_of(path, 1) == rows, "parts of a JSON file have other rows than the whole");
}

std::vector<std::string> seeds() {
  return {
      "{\"a\": 1, \"b\": [1, 2.5, null]}\n{\"a\": 2}\n",
      "{\"t\": \"2020-01-31\", \"o\": {\"x\": true, \"y\": [{\"z\": \"\\u00e9\\n\"}]}}\r\n\n{}\n",
      "\xef\xbb\xbf{\"n\": 18446744073709551615}\n{\"n\": null}"};
}

}  // namespace manta::fuzz::json_lines
