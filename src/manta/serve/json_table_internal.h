#pragma once

#include <string>
#include <string_view>

#include "manta/serve/column_builder_internal.h"

namespace manta::serve {

/// The tokens of a JSON text.
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

/// Fills a table from the tokens of a JSON text, in one pass. One class for each layout.
class TableReader {
 public:
  explicit TableReader(TableBuilder& table) : table_(table) { table.clear(); }
  virtual ~TableReader() = default;
  /// False if the token has no place in the layout; `why` says so then.
  virtual bool on(JsonToken token, std::string_view text) = 0;
  /// After the last token. Throws Error(kInvalidArgument) if the table is not complete.
  virtual void finish() = 0;
  const std::string& why() const { return why_; }

 protected:
  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }
  /// A plain value of a column.
  bool add(int column, JsonToken token, std::string_view text);

  TableBuilder& table_;

 private:
  std::string why_;
};

/// Feeds the tokens of `text` to `reader`. Throws Error(kInvalidArgument) with the position if it
/// is not JSON, or if the reader does not want a token.
void read_table(std::string_view text, TableReader& reader);

/// What the adapters of JSON do before they make a batch: fill the table from a body. Null for any
/// other adapter.
using ReadJson = void (*)(std::string_view body, TableBuilder& table);
ReadJson json_reader_of(HttpAdapter adapter);

/// `{"a": [1, 2]}`. With `takes_plain_values` also `{"a": 1, "b": 2}`, one row.
class ColumnsReader : public TableReader {
 public:
  ColumnsReader(TableBuilder& table, bool takes_plain_values)
      : TableReader(table), takes_plain_values_(takes_plain_values) {}
  bool on(JsonToken token, std::string_view text) override;
  void finish() override;
  /// Whether it failed at an array of arrays called "data": the text may have the layout of
  /// json_split.
  bool saw_rows() const { return saw_rows_; }

 private:
  bool on_value(JsonToken token, std::string_view text);

  const bool takes_plain_values_;
  bool plain_ = false, saw_rows_ = false;
  int depth_ = 0;
  int column_ = -1;
};

/// `[{"a": 1}, {"a": 2}]`.
class RecordsReader : public TableReader {
 public:
  using TableReader::TableReader;
  bool on(JsonToken token, std::string_view text) override;
  void finish() override;

 private:
  bool begin_value(std::string_view name);
  bool end_record();

  int depth_ = 0;
  int64_t rows_ = 0;
  int column_ = -1;
  int given_ = 0;  // values of this record
};

/// `{"columns": ["a"], "data": [[1], [2]]}`.
class SplitReader : public TableReader {
 public:
  using TableReader::TableReader;
  bool on(JsonToken token, std::string_view text) override;
  void finish() override;

 private:
  enum class Part { kNone, kColumns, kData, kIndex };
  bool on_key(std::string_view name);
  bool on_end_array();

  Part part_ = Part::kNone;
  int depth_ = 0;
  int column_ = 0;
  int64_t rows_ = 0;
  bool has_columns_ = false, has_data_ = false, has_index_ = false;
};

}  // namespace manta::serve
