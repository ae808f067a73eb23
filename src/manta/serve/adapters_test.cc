#include "manta/serve/adapters.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/serve/predictions_json_internal.h"

namespace manta::serve {
namespace {

using testing::HasSubstr;

Request request_with(std::string_view body) {
  Request request;
  request.body = body;
  return request;
}

// "a:int64,b:double {"a":[1],"b":[2.5]}", or the error.
std::string read(HttpAdapter adapter, std::string_view body) {
  try {
    auto batch = adapter(request_with(body));
    EXPECT_TRUE(batch->ValidateFull().ok());
    std::string text;
    for (const auto& field : batch->schema()->fields())
      text += str(text.empty() ? "" : ",", field->name(), ":", field->type()->ToString());
    text += ' ';
    append_predictions(text, *batch, 0, batch->num_rows());
    return text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
}

struct Case {
  HttpAdapter adapter;
  const char* body;
  const char* result;  // a part of it
};

TEST(JsonAdapters, MakeTables) {
  const Case cases[] = {
      {json_columns, R"({"a":[1,2],"b":[0.5,null]})",
       R"(a:int64,b:double {"a":[1,2],"b":[0.5,null]})"},
      {json_columns, R"({"s":["x",null,"\u00e4\n"],"t":[true,false,null]})",
       "s:string,t:bool {\"s\":[\"x\",null,\"ä\\n\"],\"t\":[true,false,null]}"},
      {json_columns, R"({"a":[1,2.5,3]})", R"(a:double {"a":[1,2.5,3]})"},
      {json_columns, R"({"a":[null,null]})", R"(a:double {"a":[null,null]})"},
      {json_columns, R"({"a":[null,"x"]})", R"(a:string {"a":[null,"x"]})"},
      {json_columns, R"({"a":[null,7]})", R"(a:int64 {"a":[null,7]})"},
      {json_columns, R"({"a":[]})", R"(a:double {"a":[]})"},
      {json_columns, "{}", " {}"},
      {json_columns, R"({"a":[-0,1e2,-1E-2]})", R"(a:double {"a":[-0,100,-0.01]})"},
      {json_columns, R"({"a":[9223372036854775807,-9223372036854775808]})",
       R"(a:int64 {"a":[9223372036854775807,-9223372036854775808]})"},
      {json_columns, R"({"a":[9007199254740992,0.5]})", R"(a:double {"a":[9007199254740992,0.5]})"},
      {json_columns, R"({"a":[1e-400]})", R"(a:double {"a":[0]})"},
      {json_columns, R"({"a":[0.1,1.7976931348623157e308,5e-324,2.2250738585072011e-308]})",
       R"({"a":[0.1,1.7976931348623157e+308,5e-324,2.225073858507201e-308]})"},
      {json_records, R"([{"a":1,"b":"x"},{"b":"y","a":2}])",
       R"(a:int64,b:string {"a":[1,2],"b":["x","y"]})"},
      {json_records, "[]", " {}"},
      {json_split, R"({"index":[0,1],"columns":["a","b"],"data":[[1,0.5],[2,null]]})",
       R"(a:int64,b:double {"a":[1,2],"b":[0.5,null]})"},
      {json_any, R"({"a":[1]})", R"(a:int64 {"a":[1]})"},
      {json_any, R"(  [{"a":1}])", R"(a:int64 {"a":[1]})"},
      {json_any, R"({"columns":["a"],"data":[[1],[2]]})", R"(a:int64 {"a":[1,2]})"},
      {json_any, R"({"a":1,"b":null,"c":"x"})", R"({"a":[1],"b":[null],"c":["x"]})"},
      {json_any, R"({"data":[1,2]})", R"(data:int64 {"data":[1,2]})"},
  };
  for (const auto& c : cases) EXPECT_THAT(read(c.adapter, c.body), HasSubstr(c.result)) << c.body;
}

TEST(JsonAdapters, SayWhatIsWrongAndWhere) {
  const Case cases[] = {
      {json_columns, "", "body is empty"},
      {json_columns, " \n", "body is empty"},
      {json_columns, R"({"a":[1,})", "at byte 8: not JSON"},
      {json_columns, R"({"a":[1]} x)", "at byte 10: not JSON"},
      {json_columns, R"({"a":[1])", "not JSON"},
      {json_columns, R"({"a":[NaN]})", "not JSON"},
      {json_columns, R"({"a":[01]})", "not JSON"},
      {json_columns, "{\"a\":[\"\xff\"]}", "it is not UTF-8"},
      {json_columns, R"({"a":["\ud800"]})", "not JSON"},
      {json_columns, R"({"a":["\udc00"]})", "not JSON: the second half"},
      {json_columns, R"({"\udfff":[1]})", "the second half"},
      {json_columns, "{\"a\":[\"\xed\xb0\x80\"]}", "it is not UTF-8"},
      {json_columns, R"([1])", "expected an object with an array for each column"},
      {json_columns, "3", "expected an object"},
      {json_columns, R"({"a":1})", "column 'a' is no array"},
      {json_columns, R"({"a":[1],"b":[1,2]})", "column 'b' has 2 values, column 'a' has 1"},
      {json_columns, R"({"a":[1],"a":[2]})", "the column 'a' comes twice"},
      {json_columns, R"({"a":[[1]]})", "an array or an object is no value"},
      {json_columns, R"({"a":[{}]})", "an array or an object is no value"},
      {json_columns, R"({"a":{}})", "an array or an object is no value"},
      {json_columns, R"({"a":[1,"x"]})", "column 'a': its column has values of another type"},
      {json_columns, R"({"a":[true,1]})", "values of another type"},
      {json_columns, R"({"a":[9223372036854775808]})", "beyond 64 bits"},
      {json_columns, R"({"a":[123456789012345678901234567890]})", "beyond 64 bits"},
      {json_columns, R"({"a":[9007199254740993,0.5]})", "beyond 2^53"},
      {json_columns, R"({"a":[0.5,9007199254740993]})", "beyond 2^53"},
      {json_columns, R"({"a":[1e400]})", "Number too big"},
      {json_records, R"({"a":1})", "expected an array with an object for each row"},
      {json_records, R"([1])", "expected an array with an object"},
      {json_records, R"([{}])", "records are empty"},
      {json_records, R"([{"a":1},{"b":1}])", "record 1 has the key 'b', which record 0 has not"},
      {json_records, R"([{"a":1,"b":2},{"a":1}])", "record 1 lacks the key 'b'"},
      {json_records, R"([{"a":1,"a":2}])", "record 0 has the key 'a' twice"},
      {json_records, R"([{"a":[1]}])", "an array or an object is no value"},
      {json_split, R"({"columns":["a"]})", "lacks \"data\""},
      {json_split, R"({"data":[[1]],"columns":["a"]})", "\"columns\" must come before \"data\""},
      {json_split, R"({"columns":["a"],"data":[[1,2]]})", "row 0 has more than 1 values"},
      {json_split, R"({"columns":["a","b"],"data":[[1,2],[1]]})", "row 1 has 1 values for 2"},
      {json_split, R"({"columns":["a","a"],"data":[]})", "the column 'a' comes twice"},
      {json_split, R"({"columns":["a"],"data":[1]})", "expected an object with names and rows"},
      {json_split, R"({"rows":[]})", "the key 'rows' is none of"},
      {json_any, R"({"a":1,"b":[1]})", "an array or an object is no value"},
      {json_any, R"({"a":[1],"b":1})", "column 'b' is no array"},
  };
  for (const auto& c : cases) EXPECT_THAT(read(c.adapter, c.body), HasSubstr(c.result)) << c.body;
}

TEST(JsonAdapters, TakeNoStackForDeepTexts) {
  std::string deep(1'000'000, '[');
  for (HttpAdapter adapter : {json_columns, json_records, json_split, json_any})
    EXPECT_THAT(read(adapter, deep), HasSubstr("the request's body, at byte "));
}

TEST(JsonAdapters, TakeManyColumns) {
  std::string body = "{";
  for (int i = 0; i < 1000; ++i) body += str(i ? "," : "", "\"c", i, "\":[", i, "]");
  auto batch = json_columns(request_with(body + "}"));
  EXPECT_EQ(batch->num_columns(), 1000);
  EXPECT_EQ(batch->schema()->field(999)->name(), "c999");
  EXPECT_THAT(read(json_columns, body + ",\"c40\":[1]}"), HasSubstr("'c40' comes twice"));
}

TEST(JsonAdapters, GiveTheSameSchemaForTheSameColumns) {
  auto first = json_columns(request_with(R"({"a":[1],"b":[2]})"));
  auto second = json_columns(request_with(R"({"a":[3,4],"b":[5,6]})"));
  EXPECT_EQ(first->schema(), second->schema());
  EXPECT_FALSE(
      first->schema()->Equals(*json_columns(request_with(R"({"a":[1],"b":[2.5]})"))->schema()));
}

TEST(ArrowIpc, ReadsAStreamAndNothingElse) {
  auto batch = json_columns(request_with(R"({"a":[1,2],"s":["x",null]})"));
  auto out = check(arrow::io::BufferOutputStream::Create(), "stream");
  auto writer = check(arrow::ipc::MakeStreamWriter(out, batch->schema()), "writer");
  check(writer->WriteRecordBatch(*batch), "write");
  check(writer->WriteRecordBatch(*batch), "write");
  check(writer->Close(), "close");
  std::string bytes = check(out->Finish(), "finish")->ToString();
  EXPECT_THAT(read(arrow_ipc, bytes), HasSubstr(R"({"a":[1,2,1,2],"s":["x",null,"x",null]})"));
  EXPECT_THAT(read(arrow_ipc, bytes.substr(0, bytes.size() / 2)), HasSubstr("Arrow's IPC format"));
  EXPECT_THAT(read(arrow_ipc, "{}"), HasSubstr("Arrow's IPC format"));
}

TEST(Predictions, AreObjectsOfColumns) {
  arrow::FloatBuilder floats;
  check(floats.AppendValues({0.1f, std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity()}),
        "append");
  check(floats.AppendNull(), "append");
  auto values = check(floats.Finish(), "finish");
  auto offsets = check(arrow::MakeArrayFromScalar(arrow::Int32Scalar(0), 1), "offsets");
  auto lists = check(arrow::FixedSizeListArray::FromArrays(values, 2), "lists");
  std::string text;
  append_predictions(text,
                     *arrow::RecordBatch::Make(
                         arrow::schema({arrow::field("p\"", arrow::float32())}), 4, {values}),
                     0, 4);
  EXPECT_EQ(text, R"({"p\"":[0.1,"NaN","Infinity",null]})");
  text.clear();
  append_predictions(
      text,
      *arrow::RecordBatch::Make(arrow::schema({arrow::field("p", lists->type())}), 2, {lists}), 1,
      1);
  EXPECT_EQ(text, R"({"p":[["Infinity",null]]})");
  text.clear();
  append_json_string(text, "a\x01\xff\"");
  EXPECT_EQ(text, R"("a\u0001\ufffd\"")");
}

TEST(Requests, GiveTheirHeaderAndParameters) {
  Request request;
  request.fields = "Host: a\r\nX-Trace:  7 \r\nEmpty:\r\n";
  EXPECT_EQ(request.header("x-trace"), "7");
  EXPECT_EQ(request.header("empty"), "");
  EXPECT_EQ(request.header("missing"), "");
  request.query = "a=1&b=x%20y+z&c&d=%zz";
  EXPECT_EQ(request.param("a"), "1");
  EXPECT_EQ(request.param("b"), "x y z");
  EXPECT_EQ(request.param("c"), "");
  EXPECT_EQ(request.param("d"), "%zz");
  request.body = "{\"a\": 1}";
  EXPECT_EQ(request.json()["a"], 1);
}

}  // namespace
}  // namespace manta::serve
