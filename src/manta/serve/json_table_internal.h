#pragma once

#include <string>
#include <string_view>

#include "manta/serve/column_builder_internal.h"

namespace manta::serve {

/// Where a value stands in a JSON text.
enum class JsonToken {
  kNull,
  kTrue,
  kFalse,
  kNumber,
  kString,
  kKey,
  kBeginObject,
  kEndObject,
  kBeginArray,
  kEndArray
};

/// Makes a table of the tokens of a JSON text, in one pass. One class for each layout.
class TableReader {
 public:
  virtual ~TableReader() = default;
  /// False if the token has no place in the layout; `why` says so then.
  virtual bool on(JsonToken token, std::string_view text) = 0;
  /// After the last token. Throws Error(kInvalidArgument) if the table is not complete.
  virtual Batch finish() = 0;
  const std::string& why() const { return why_; }

 protected:
  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }
  /// A plain value of a column.
  bool add(TableBuilder& table, int column, JsonToken token, std::string_view text);

 private:
  std::string why_;
};

/// Feeds the tokens of `text` to `reader`. Throws Error(kInvalidArgument) with the position if it
/// is not JSON, or if the reader does not want a token.
Batch read_table(std::string_view text, TableReader& reader);

/// `{"a": [1, 2]}`. With `takes_plain_values` also `{"a": 1, "b": 2}`, one row.
class ColumnsReader : public TableReader {
 public:
  explicit ColumnsReader(bool takes_plain_values) : takes_plain_values_(takes_plain_values) {}
  bool on(JsonToken token, std::string_view text) override;
  Batch finish() override;
  /// It failed at an array of arrays called "data": the text may be of json_split's layout.
  bool saw_rows() const { return saw_rows_; }

 private:
  bool on_value(JsonToken token, std::string_view text);

  const bool takes_plain_values_;
  bool plain_ = false, saw_rows_ = false;
  int depth_ = 0;
  int column_ = -1;
  TableBuilder table_;
};

/// `[{"a": 1}, {"a": 2}]`.
class RecordsReader : public TableReader {
 public:
  bool on(JsonToken token, std::string_view text) override;
  Batch finish() override;

 private:
  bool begin_value(std::string_view name);
  bool end_record();

  int depth_ = 0;
  int64_t rows_ = 0;
  int column_ = -1;
  int given_ = 0;  // values of this record
  TableBuilder table_;
};

/// `{"columns": ["a"], "data": [[1], [2]]}`.
class SplitReader : public TableReader {
 public:
  bool on(JsonToken token, std::string_view text) override;
  Batch finish() override;

 private:
  enum class Part { kNone, kColumns, kData, kIndex };
  bool on_key(std::string_view name);
  bool on_end_array();

  Part part_ = Part::kNone;
  int depth_ = 0;
  int column_ = 0;
  int64_t rows_ = 0;
  bool has_columns_ = false, has_data_ = false, has_index_ = false;
  TableBuilder table_;
};

}  // namespace manta::serve
