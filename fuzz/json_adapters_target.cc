// The body of a request, as every JSON adapter reads it. An accepted body gives a valid table, and
// the same table after another was read into the same memory.

#include <arrow/api.h>
#include <manta/base/error_internal.h>
#include <manta/serve/adapters.h>
#include <manta/serve/json_table_internal.h>

#include "target.h"

namespace manta::fuzz::json_adapters {

void run(std::string_view input) {
  static serve::TableBuilder used;
  for (auto adapter :
       {serve::json_columns, serve::json_records, serve::json_split, serve::json_any}) {
    serve::Request request;
    request.body = input;
    serve::Batch batch;
    try {
      batch = adapter(request);
    } catch (const Error&) {
    }
    if (batch) MANTA_CHECK(batch->ValidateFull().ok(), "an adapter made a table that is not valid");
    bool again = true;
    try {
      serve::json_reader_of(adapter)(input, used);
    } catch (const Error&) {
      again = false;
    }
    MANTA_CHECK(again == (batch != nullptr), "used memory changes what is accepted");
    if (batch)
      MANTA_CHECK(used.finish()->Equals(*batch, arrow::EqualOptions().nans_equal(true)),
                  "used memory changes a table");
  }
}

std::vector<std::string> seeds() {
  return {R"({"a":[1,2],"b":[0.5,null],"s":["x","\u00e4"],"t":[true,null]})",
          R"([{"a":1,"b":"x"},{"b":"y","a":-2.5e3}])",
          R"({"columns":["a","b"],"index":[0],"data":[[1,null]]})", R"({"a":1,"b":false,"c":null})",
          R"({"a":[9223372036854775807,-0,1e-400]})"};
}

}  // namespace manta::fuzz::json_adapters
