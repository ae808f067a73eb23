#include "manta/data/cell_internal.h"
#include "manta/data/json_lines_internal.h"

// Uses its own namespace: other libraries of the process may have another version.
#define RAPIDJSON_NAMESPACE manta_rapidjson
#define RAPIDJSON_NAMESPACE_BEGIN namespace manta_rapidjson {
#define RAPIDJSON_NAMESPACE_END }
#define RAPIDJSON_HAS_STDSTRING 0
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "manta/base/error_internal.h"

namespace manta::data {
namespace {

constexpr size_t kShownOfLine = 80;

/// The handler that rapidjson calls. Numbers come as text: rapidjson would round those that are too
/// long.
class TokenHandler {
 public:
  explicit TokenHandler(JsonTokens& tokens) : tokens_(tokens) {}

  bool Null() {
    return value([&] { tokens_.null(); });
  }
  bool Bool(bool is) {
    return value([&] { tokens_.boolean(is); });
  }
  bool RawNumber(const char* text, unsigned size, bool) {
    return value([&] { tokens_.number({text, size}); });
  }
  bool String(const char* text, unsigned size, bool) {
    return value([&] { tokens_.text(whole_characters({text, size})); });
  }
  bool Key(const char* text, unsigned size, bool) {
    tokens_.key(whole_characters({text, size}));
    return true;
  }
  bool StartObject() {
    deeper();
    tokens_.begin_object();
    return true;
  }
  bool EndObject(unsigned) {
    --depth_;
    tokens_.end_object();
    return true;
  }
  bool StartArray() {
    require_object();
    deeper();
    tokens_.begin_list();
    return true;
  }
  bool EndArray(unsigned) {
    --depth_;
    tokens_.end_list();
    return true;
  }
  // For other modes of the parser.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }

 private:
  template <class Call>
  bool value(Call call) {
    require_object();
    call();
    return true;
  }
  void require_object() const {
    if (depth_ > 0) return;
    throw Error(ErrorKind::kCorrupt,
                "the line is no JSON object; each line must be one, such as {\"x\": 1}");
  }
  void deeper() {
    if (++depth_ <= kMaxLineNesting) return;
    throw Error(ErrorKind::kCorrupt,
                str("lists and objects are nested deeper than ", kMaxLineNesting, " levels"));
  }
  // The text is UTF-8. It may still have escapes of half a character, such as \ud800.
  static std::string_view whole_characters(std::string_view text) {
    for (size_t at = text.find('\xed'); at < text.size(); at = text.find('\xed', at + 1)) {
      if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xa0) {
        throw Error(ErrorKind::kCorrupt, "a text has half of a surrogate pair, such as \\ud800");
      }
    }
    return text;
  }

  JsonTokens& tokens_;
  int depth_ = 0;
};

void parse_line(std::string_view line, JsonTokens& tokens) {
  namespace json = manta_rapidjson;
  json::MemoryStream stream(line.data(), line.size());
  TokenHandler handler(tokens);
  json::Reader reader;
  auto result = reader.Parse<json::kParseNumbersAsStringsFlag | json::kParseIterativeFlag |
                             json::kParseValidateEncodingFlag>(stream, handler);
  if (!result.IsError()) return;
  size_t at = std::min(result.Offset(), line.size());
  throw Error(ErrorKind::kCorrupt,
              str(json::GetParseError_En(result.Code()), " At character ", at + 1,
                  " of: ", printable(line, kShownOfLine),
                  "; each line must be a JSON object: correct it, or leave the file out"));
}

}  // namespace

int64_t parse_lines(std::string_view text, const PartFile& file, int64_t offset,
                    JsonTokens& tokens) {
  int64_t rows = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      try {
        parse_line(line, tokens);
      } catch (const Error& error) {
        throw Error(error.kind(),
                    str("read_json: '", file.path, "', line ",
                        line_at(file, offset + static_cast<int64_t>(at)), ": ", error.what()));
      }
      ++rows;
    }
    at = end + 1;
  }
  return rows;
}

}  // namespace manta::data
