#include <cctype>

#include "manta/serve/json_table_internal.h"

// Uses its own namespace: other libraries of the process may have another version.
#define RAPIDJSON_NAMESPACE manta_rapidjson
#define RAPIDJSON_NAMESPACE_BEGIN namespace manta_rapidjson {
#define RAPIDJSON_NAMESPACE_END }
#define RAPIDJSON_HAS_STDSTRING 0
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "manta/base/error_internal.h"
#include "manta/serve/predictions_json_internal.h"

namespace manta::serve {
namespace {

std::string name_of(const std::string& column) {
  constexpr size_t kShown = 80;
  return column.size() <= kShown ? str("'", column, "'")
                                 : str("'", column.substr(0, kShown), "...'");
}

// The handler that rapidjson calls for each token. Numbers come as text: rapidjson would round
// those that are too long.
class Handler {
 public:
  explicit Handler(TableReader& reader) : reader_(reader) {}

  bool Null() { return reader_.on(JsonToken::kNull, {}); }
  bool Bool(bool value) { return reader_.on(value ? JsonToken::kTrue : JsonToken::kFalse, {}); }
  bool RawNumber(const char* text, unsigned size, bool) {
    return reader_.on(JsonToken::kNumber, {text, size});
  }
  bool String(const char* text, unsigned size, bool) {
    return is_text({text, size}) && reader_.on(JsonToken::kString, {text, size});
  }
  bool Key(const char* text, unsigned size, bool) {
    return is_text({text, size}) && reader_.on(JsonToken::kKey, {text, size});
  }
  bool StartObject() { return reader_.on(JsonToken::kBeginObject, {}); }
  bool EndObject(unsigned) { return reader_.on(JsonToken::kEndObject, {}); }
  bool StartArray() { return reader_.on(JsonToken::kBeginArray, {}); }
  bool EndArray(unsigned) { return reader_.on(JsonToken::kEndArray, {}); }
  // For other modes of the parser.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }

  const std::string& why() const { return why_.empty() ? reader_.why() : why_; }

 private:
  // The body is UTF-8. It may still have escapes of half a character: rapidjson refuses only first
  // halves.
  bool is_text(std::string_view text) {
    for (size_t at = text.find('\xed'); at < text.size(); at = text.find('\xed', at + 1)) {
      if (at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0xa0) continue;
      why_ = "not JSON: the second half of a surrogate pair without the first";
      return false;
    }
    return true;
  }

  TableReader& reader_;
  std::string why_;
};

}  // namespace

void read_table(std::string_view text, TableReader& reader) {
  namespace json = manta_rapidjson;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw Error(ErrorKind::kInvalidArgument, "the request's body is empty; it must be JSON");
  }
  if (!is_utf8(text)) {
    throw Error(ErrorKind::kInvalidArgument, "the request's body is not JSON: it is not UTF-8");
  }
  constexpr unsigned kFlags = json::kParseIterativeFlag | json::kParseNumbersAsStringsFlag;
  json::MemoryStream stream(text.data(), text.size());
  json::Reader parser;
  Handler handler(reader);
  json::ParseResult result = parser.Parse<kFlags>(stream, handler);
  if (result.IsError()) {
    bool refused = result.Code() == json::kParseErrorTermination;
    throw Error(
        ErrorKind::kInvalidArgument,
        str("the request's body, at byte ", result.Offset(), ": ",
            refused ? handler.why() : str("not JSON: ", json::GetParseError_En(result.Code()))));
  }
  reader.finish();
}

bool TableReader::add(int column, JsonToken token, std::string_view text) {
  ColumnBuilder& values = table_.column(column);
  const char* why = nullptr;
  switch (token) {
    case JsonToken::kNull:
      why = values.add_null();
      break;
    case JsonToken::kTrue:
    case JsonToken::kFalse:
      why = values.add_bool(token == JsonToken::kTrue);
      break;
    case JsonToken::kNumber:
      why = values.add_number(text);
      break;
    case JsonToken::kString:
      why = values.add_string(text);
      break;
    default:
      why = "an array or an object is no value of a column";
  }
  return !why || fail(str("column ", name_of(table_.name(column)), ": ", why));
}

// ---- {"a": [1, 2]}

bool ColumnsReader::on(JsonToken token, std::string_view text) {
  switch (token) {
    case JsonToken::kBeginObject:
      if (depth_ == 0) return ++depth_;
      break;
    case JsonToken::kEndObject:
      --depth_;
      return true;
    case JsonToken::kKey:
      column_ = table_.add(text);
      return column_ >= 0 || fail(str("the column ", name_of(std::string(text)), " comes twice"));
    case JsonToken::kBeginArray:
      if (depth_ == 1 && !plain_) return ++depth_;
      saw_rows_ = depth_ == 2 && table_.name(column_) == "data";
      break;
    case JsonToken::kEndArray:
      --depth_;
      return true;
    default:
      return on_value(token, text);
  }
  if (depth_ == 0) return fail("expected an object with an array for each column: {\"a\": [1, 2]}");
  return add(column_, token, text);
}

bool ColumnsReader::on_value(JsonToken token, std::string_view text) {
  if (depth_ == 1 && takes_plain_values_ && table_.size() == 1) plain_ = true;
  if (depth_ == 2 || (depth_ == 1 && plain_)) return add(column_, token, text);
  return fail(depth_ == 0 ? "expected an object with an array for each column: {\"a\": [1, 2]}"
                          : str("column ", name_of(table_.name(column_)), " is no array"));
}

void ColumnsReader::finish() {
  for (int i = 1; i < table_.size(); ++i) {
    int64_t first = table_.column(0).size(), here = table_.column(i).size();
    if (first == here) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("the request's body: column ", name_of(table_.name(i)), " has ", here,
                    " values, column ", name_of(table_.name(0)), " has ", first,
                    "; all columns must have as many"));
  }
}

// ---- [{"a": 1}, {"a": 2}]

bool RecordsReader::on(JsonToken token, std::string_view text) {
  switch (token) {
    case JsonToken::kBeginArray:
      if (depth_ == 0) return ++depth_;
      break;
    case JsonToken::kBeginObject:
      if (depth_ == 1) {
        given_ = 0;
        return ++depth_;
      }
      break;
    case JsonToken::kKey:
      return begin_value(text);
    case JsonToken::kEndObject:
      return end_record();
    case JsonToken::kEndArray:
      --depth_;
      return true;
    default:
      break;
  }
  if (depth_ == 2) return add(column_, token, text);
  return fail("expected an array with an object for each row: [{\"a\": 1}, {\"a\": 2}]");
}

bool RecordsReader::begin_value(std::string_view name) {
  // Most records have their keys in the order of the first.
  bool is_next = given_ < table_.size() && table_.name(given_) == name;
  column_ = is_next ? given_ : table_.find(name);
  if (column_ < 0) {
    if (rows_ > 0) {
      return fail(str("record ", rows_, " has the key ", name_of(std::string(name)),
                      ", which record 0 has not"));
    }
    column_ = table_.add(name);
  }
  if (table_.column(column_).size() > rows_) {
    return fail(str("record ", rows_, " has the key ", name_of(std::string(name)), " twice"));
  }
  ++given_;
  return true;
}

bool RecordsReader::end_record() {
  --depth_;
  for (int i = 0; given_ < table_.size() && i < table_.size(); ++i) {
    if (table_.column(i).size() > rows_) continue;
    return fail(str("record ", rows_, " lacks the key ", name_of(table_.name(i)),
                    ", which record 0 has; send null for a missing value"));
  }
  ++rows_;
  return true;
}

void RecordsReader::finish() {
  if (rows_ > 0 && table_.size() == 0) {
    throw Error(ErrorKind::kInvalidArgument, "the request's body: its records are empty");
  }
}

// ---- {"columns": ["a"], "data": [[1], [2]]}

bool SplitReader::on(JsonToken token, std::string_view text) {
  constexpr const char* kExpected =
      "expected an object with names and rows: {\"columns\": [\"a\"], \"data\": [[1], [2]]}";
  switch (token) {
    case JsonToken::kBeginObject:
      if (depth_ == 0) return ++depth_;
      break;
    case JsonToken::kEndObject:
      return true;
    case JsonToken::kKey:
      return on_key(text);
    case JsonToken::kBeginArray:
      if (depth_ == 1) return ++depth_;
      if (depth_ == 2 && part_ == Part::kData) {
        column_ = 0;
        return ++depth_;
      }
      break;
    case JsonToken::kEndArray:
      return on_end_array();
    default:
      if (depth_ == 2 && part_ == Part::kIndex) return true;
      if (depth_ == 2 && part_ == Part::kColumns && token == JsonToken::kString) {
        return table_.add(text) >= 0 ||
               fail(str("the column ", name_of(std::string(text)), " comes twice"));
      }
      break;
  }
  if (depth_ == 3) {
    if (column_ < table_.size()) return add(column_++, token, text);
    return fail(
        str("row ", rows_, " has more than ", table_.size(), " values, the number of \"columns\""));
  }
  return fail(kExpected);
}

bool SplitReader::on_key(std::string_view name) {
  bool* seen = name == "columns" ? &has_columns_
               : name == "data"  ? &has_data_
               : name == "index" ? &has_index_
                                 : nullptr;
  if (!seen)
    return fail(str("the key ", name_of(std::string(name)),
                    " is none of \"columns\", \"data\" and \"index\""));
  if (std::exchange(*seen, true))
    return fail(str("the key ", name_of(std::string(name)), " comes twice"));
  if (name == "data" && !has_columns_) return fail("\"columns\" must come before \"data\"");
  part_ = name == "columns" ? Part::kColumns : name == "data" ? Part::kData : Part::kIndex;
  return true;
}

bool SplitReader::on_end_array() {
  if (depth_-- == 3) {
    if (column_ < table_.size()) {
      return fail(
          str("row ", rows_, " has ", column_, " values for ", table_.size(), " \"columns\""));
    }
    ++rows_;
  }
  return true;
}

void SplitReader::finish() {
  if (!has_columns_ || !has_data_) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the request's body lacks \"", has_columns_ ? "data" : "columns", "\""));
  }
}

}  // namespace manta::serve
