#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "manta/base/json_input_internal.h"
#include "manta/data/part_files_internal.h"

namespace arrow {
class DataType;
class Schema;
}  // namespace arrow

namespace manta::data {

inline constexpr FileKind kJsonLines = {"read_json", ".json .jsonl .ndjson"};
/// The deepest nesting of lists and objects in a line.
inline constexpr int kMaxLineNesting = 64;

// ---- json_types.cc: types as JSON, "int64", {"list": "string"} or {"struct": [["x", "int64"]]}.

/// Throws Error(kInvalidArgument) that lists the known types. `reader`: how its message begins.
std::shared_ptr<arrow::DataType> type_from_json(const Json& json, const char* reader,
                                                int depth = 0);
Json type_to_json(const arrow::DataType& type);

// ---- json_tokens.cc: the grammar.

/// Receives the tokens of a line. Each call may throw an Error without file and line.
class JsonTokens {
 public:
  virtual ~JsonTokens() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void number(std::string_view text) = 0;
  virtual void text(std::string_view text) = 0;
  virtual void key(std::string_view name) = 0;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
};

/// Calls `tokens` for each line that is not blank; returns the number of such lines. `text` begins
/// at `offset` of the file. Throws Error(kCorrupt) for a line that is not a JSON object, or is
/// nested deeper than kMaxLineNesting. That error, and the errors of `tokens`, get the file and the
/// line.
int64_t parse_lines(std::string_view text, const PartFile& file, int64_t offset,
                    JsonTokens& tokens);

// ---- json_infer.cc: types from the first lines.

struct JsonSample {
  std::shared_ptr<arrow::Schema> schema;
  RowSample rows;
  bool has_rows = false;
};
/// `columns`: the columns to infer; none: all. `given`: types that are not inferred.
JsonSample infer_lines(const PartFile& file, const std::vector<std::string>& columns,
                       const std::map<std::string, std::shared_ptr<arrow::DataType>>& given);

// ---- json_rows.cc: from lines to columns.

struct JsonRowsOptions {
  std::shared_ptr<arrow::Schema> schema;  ///< Of the columns that are wanted.
  /// All fields that lines may have; others are errors, unless they are ignored.
  std::unordered_set<std::string> known;
  bool ignore_unknown = false;
};
/// Batches of at most `piece_rows`. Throws as parse_lines; Error(kInvalidArgument) for a value that
/// is not of its column's type and for a field that is not known.
void read_lines(std::string_view text, const PartFile& file, int64_t offset,
                const JsonRowsOptions& options, int64_t piece_rows, const TakeBatch& take);

}  // namespace manta::data
