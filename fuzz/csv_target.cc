// Two letters that are options, and a CSV file. However it is cut into parts, the rows are the
// same.

#include <arrow/api.h>
#include <manta/base/error_internal.h>
#include <manta/data/plan_internal.h>
#include <manta/data/sources.h>

#include "target.h"

namespace manta::fuzz::csv {
namespace {

// Options from two letters: each bit of the first is one of them, the second is the delimiter.
data::ReadCsvOptions options_of(char bits, char delimiter) {
  data::ReadCsvOptions options;
  options.delimiter = delimiter;
  if (bits & 1) options.column_names = {"a", "b"};
  if (bits & 2) options.strings_can_be_null = true;
  if (bits & 4) options.quoted_can_be_null = false;
  if (bits & 8) options.null_values = {"-", "x"};
  if (bits & 16) options.column_types = {{"a", "string"}};
  if (bits & 32) options.quote = '\0';
  if (bits & 64) options.columns = {"b"};
  return options;
}

// The number of rows; -1 if the file cannot be read.
int64_t rows_of(const std::string& path, data::ReadCsvOptions options, int64_t fragment_bytes) {
  options.fragment_bytes = fragment_bytes;
  try {
    auto plan = data::read_csv(path, options).plan();
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
  if (input.size() < 2) return;
  auto options = options_of(input[0], input[1]);
  std::string path = scratch_file("a.csv", input.substr(2));
  int64_t rows = rows_of(path, options, 8 << 20);
  for (int64_t bytes : {1, 16}) {
    MANTA_CHECK(rows_of(path, options, bytes) == rows,
                "parts of a CSV file have other rows than the whole");
  }
}

// '@' stands for no option, 'A' for the first one, and so on.
std::vector<std::string> seeds() {
  return {"@,a,b\n1,x\n2,y\n",
          "@,\xef\xbb\xbf\"a\",\"b\nc\"\r\n1,\"x\"\"y\r\n,z\"\r\n\r\n3,\r\n",
          "@,id,day,ok,n\n1,2020-01-31,true,2.5\n2,2020-02-01 08:30:00,,NA",
          "A;1;x\n2;\"y;z\"\n",
          "F\ta\tb\n\"\"\tx\n\t\"x\"\n",
          "X|a|b\n-|1\n007|x\n",
          "`,a,b\n\"1,2\n3,\"x\"\n"};
}

}  // namespace manta::fuzz::csv
