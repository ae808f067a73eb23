// A CSV file. However it is cut into parts, the rows are the same.

#include <arrow/api.h>
#include <manta/base/error_internal.h>
#include <manta/data/plan_internal.h>
#include <manta/data/sources.h>

#include "target.h"

namespace manta::fuzz::csv {
namespace {

// The number of rows; -1 if the file cannot be read.
int64_t rows_of(const std::string& path, int64_t fragment_bytes) {
  try {
    auto plan = data::read_csv(path, {.fragment_bytes = fragment_bytes}).plan();
    int64_t rows = 0;
    for (size_t i = 0; i < plan->source->fragments().size(); ++i) {
      plan->source->read(i, plan->columns, 1000,
                         [&](const data::BatchPtr& batch) { rows += batch->num_rows(); });
    }
    return rows;
  } catch (const Error&) {
    return -1;
  }
}

}  // namespace

void run(std::string_view input) {
  std::string path = scratch_file("a.csv", input);
  int64_t rows = rows_of(path, 8 << 20);
  for (int64_t bytes : {1, 16}) {
    MANTA_CHECK(rows_of(path, bytes) == rows, "parts of a CSV file have other rows than the whole");
  }
}

std::vector<std::string> seeds() {
  return {"a,b\n1,x\n2,y\n", "\xef\xbb\xbf\"a\",\"b\nc\"\r\n1,\"x\"\"y\r\n,z\"\r\n\r\n3,\r\n",
          "id,day,ok,n\n1,2020-01-31,true,2.5\n2,2020-02-01 08:30:00,,NA"};
}

}  // namespace manta::fuzz::csv
