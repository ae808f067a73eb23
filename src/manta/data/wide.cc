#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/ordered_places_internal.h"
#include "manta/data/placed_rows_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

// NaN as the last number, or as the first one, whatever the direction.
std::shared_ptr<arrow::Array> place_nans(const std::shared_ptr<arrow::Array>& keys, bool descending,
                                         bool nulls_first) {
  if (descending == nulls_first) return keys;
  arrow::Int64Builder builder;
  check(builder.Reserve(keys->length()), "keys of a sort");
  auto& numbers = static_cast<const arrow::Int64Array&>(*keys);
  for (int64_t i = 0; i < numbers.length(); ++i) {
    if (numbers.IsNull(i)) {
      builder.UnsafeAppendNull();
    } else {
      builder.UnsafeAppend(numbers.Value(i) == kNanKey ? INT64_MIN : numbers.Value(i));
    }
  }
  return check(builder.Finish(), "keys of a sort");
}

std::shared_ptr<arrow::Array> coded_lane(const arrow::DictionaryArray& column) {
  auto values = Payload::encode(column.dictionary());
  return std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(column.indices()->type(), values->type()), column.indices(), values);
}

// What the columns of rows stand for, which may be coded. `declared`: without codes; null if no
// column can be coded.
SchemaPtr plain_schema(const SchemaPtr& declared, const arrow::RecordBatch& first) {
  auto fields = first.schema()->fields();
  for (auto& field : fields) {
    auto plain = declared ? declared->GetFieldByName(field->name()) : nullptr;
    if (!plain || field->type()->id() != arrow::Type::DICTIONARY) continue;
    const auto& coded = static_cast<const arrow::DictionaryType&>(*field->type());
    if (coded.value_type()->Equals(*plain->type())) field = field->WithType(plain->type());
  }
  return arrow::schema(fields, first.schema()->metadata());
}

// The first rows whose texts, written out, take 256 MiB at most: codes of long texts stand for far
// more bytes than a batch has.
int64_t rows_to_write_out(const arrow::RecordBatch& batch) {
  constexpr int64_t kMostBytes = 256 << 20;
  int64_t bytes_of_row = 0;
  for (const auto& column : batch.columns()) {
    if (column->type_id() != arrow::Type::DICTIONARY) continue;
    const auto& values = *static_cast<const arrow::DictionaryArray&>(*column).dictionary();
    if (!arrow::is_binary_like(values.type_id())) continue;
    const auto& texts = static_cast<const arrow::BinaryArray&>(values);
    if (texts.total_values_length() <= kMostBytes / (batch.num_rows() + 1)) continue;
    int64_t longest = 0;
    for (int64_t i = 0; i < texts.length(); ++i) {
      longest = std::max<int64_t>(longest, texts.value_length(i));
    }
    bytes_of_row += longest;
  }
  return bytes_of_row == 0 ? batch.num_rows() : std::max<int64_t>(kMostBytes / bytes_of_row, 1);
}

}  // namespace

WideColumns::WideColumns(SchemaPtr schema, const std::string& doing) : schema_(std::move(schema)) {
  for (const auto& field : schema_->fields()) {
    try {
      lanes_.push_back(Payload::lane_type(*field->type()));
    } catch (const Error& error) {
      throw Error(error.kind(),
                  str("in ", doing, ": column '", field->name(), "': ", error.what()));
    }
  }
}

void WideColumns::encode(const arrow::RecordBatch& batch, arrow::ArrayVector& lanes) const {
  for (int i = 0; i < batch.num_columns(); ++i) {
    const auto& column = batch.column(i);
    bool is_coded = column->type_id() == arrow::Type::DICTIONARY &&
                    schema_->field(i)->type()->id() != arrow::Type::DICTIONARY;
    lanes.push_back(is_coded ? coded_lane(static_cast<const arrow::DictionaryArray&>(*column))
                             : Payload::encode(column));
  }
}

std::shared_ptr<arrow::RecordBatch> WideColumns::decode(const arrow::RecordBatch& lanes,
                                                        int first) const {
  arrow::ArrayVector columns;
  for (int i = 0; i < schema_->num_fields(); ++i) {
    columns.push_back(decode_one(i, lanes.column(first + i)));
  }
  return arrow::RecordBatch::Make(schema_, lanes.num_rows(), std::move(columns));
}

std::shared_ptr<arrow::RecordBatch> WideColumns::decode_only(
    const std::vector<int>& wanted, const arrow::RecordBatch& lanes) const {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (size_t i = 0; i < wanted.size(); ++i) {
    fields.push_back(schema_->field(wanted[i]));
    columns.push_back(decode_one(wanted[i], lanes.column(static_cast<int>(i))));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), lanes.num_rows(), std::move(columns));
}

std::shared_ptr<arrow::Array> WideColumns::decode_one(
    int column, const std::shared_ptr<arrow::Array>& lane) const {
  try {
    return Payload::decode(lane, schema_->field(column)->type());
  } catch (const Error& error) {
    throw Error(error.kind(), str("column '", schema_->field(column)->name(), "': ", error.what()));
  }
}

void require_key(const arrow::Field& field, const std::string& doing) {
  if (Key::lane_type(*field.type())) return;
  throw Error(
      ErrorKind::kInvalidArgument,
      str("in ", doing, ": column '", field.name(), "' is of type ", field.type()->ToString(),
          ", whose values cannot be compared; use numbers, times, texts or booleans"));
}

std::vector<OrderKey> order_keys(const arrow::Schema& schema,
                                 const std::vector<std::string>& columns,
                                 const std::vector<bool>& descending, Nulls nulls,
                                 const std::string& doing) {
  std::vector<OrderKey> keys;
  for (size_t i = 0; i < columns.size(); ++i) {
    auto field = schema.GetFieldByName(columns[i]);
    if (!field) {
      throw Error(ErrorKind::kNotFound,
                  str("in ", doing, ": ", no_such_column(columns[i], schema.field_names())));
    }
    require_key(*field, doing);
    keys.push_back({Key::lane_type(*field->type()), descending[i], nulls == Nulls::kFirst});
  }
  return keys;
}

KeysOf keys_of_columns(const std::vector<std::string>& columns, const std::vector<bool>& descending,
                       Nulls nulls) {
  return [=](const arrow::RecordBatch& batch, int64_t) {
    arrow::ArrayVector keys;
    for (size_t i = 0; i < columns.size(); ++i) {
      auto column = batch.GetColumnByName(columns[i]);
      auto lane = Key::encode(column);
      bool floating = Key::is_floating(*column->type());
      keys.push_back(floating ? place_nans(lane, descending[i], nulls == Nulls::kFirst) : lane);
    }
    return keys;
  };
}

std::string lane_list(const std::string& prefix, size_t first, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(str(prefix, "c", first + i));
  return join(names);
}

std::shared_ptr<arrow::Array> numbers_from(int64_t first, int64_t count) {
  arrow::Int64Builder builder;
  check(builder.Reserve(count), "numbers of rows");
  for (int64_t i = 0; i < count; ++i) builder.UnsafeAppend(first + i);
  return check(builder.Finish(), "numbers of rows");
}

std::shared_ptr<arrow::RecordBatch> lanes_batch(arrow::ArrayVector lanes, int64_t rows) {
  arrow::FieldVector fields;
  for (const auto& lane : lanes) fields.push_back(arrow::field("", lane->type()));
  return arrow::RecordBatch::Make(arrow::schema(fields), rows, std::move(lanes));
}

int64_t checked_memory(int64_t bytes, const std::string& doing) {
  constexpr int64_t kLeast = 64 << 20;
  if (bytes == 0 || (bytes >= kLeast && bytes <= kMaxRows)) return bytes;
  throw Error(ErrorKind::kInvalidArgument,
              str(doing, " needs memory_bytes of at least ", kLeast,
                  ", or 0 for a quarter of the machine's memory, not ", bytes));
}

namespace {

// For keys whose lanes begin at `first`, with the place of the row behind them: equal ones as they
// came.
std::string order_by(const std::vector<OrderKey>& keys, size_t first) {
  std::string order;
  for (size_t i = 0; i < keys.size(); ++i) {
    order += str("c", first + i, keys[i].descending ? " DESC" : " ASC",
                 keys[i].nulls_first ? " NULLS FIRST, " : " NULLS LAST, ");
  }
  return str(order, "c", first + keys.size());
}

/// One sort: its rows, in memory if they fit, and what puts them in order.
class RowSort {
 public:
  using Take = std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>;

  RowSort(const AllRows& rows, std::shared_ptr<arrow::RecordBatch> first,
          const std::vector<OrderKey>& keys, const KeysOf& keys_of, int64_t memory_bytes,
          const std::string& doing)
      : rows_(rows),
        first_(std::move(first)),
        keys_(keys),
        keys_of_(keys_of),
        memory_(wide_memory(memory_bytes)),
        columns_(std::make_shared<const WideColumns>(plain_schema(rows.schema, *first_), doing)),
        kept_(std::make_shared<KeptRows>(columns_->lanes(), [this] { return next(); })) {
    for (const auto& key : keys) key_lanes_.push_back(key.lane);
    key_lanes_.push_back(arrow::int64());
  }
  RowSort(const RowSort&) = delete;

  /// Gives the rows to the sink if there is one. False if stopped.
  bool run(RowSink* sink, const Take& take) {
    int64_t room = KeptRows::room(memory_);
    if (rows_.bytes && *rows_.bytes > room) room = 0;
    bool all_kept = kept_->keep_all(room);
    if (rows_.stopping && rows_.stopping()) return false;
    WideLimits limits{memory_, rows_.threads, rows_.stopping, rows_.work};
    if (!all_kept) return run_whole(limits, take);
    NextBatch next_keys = [this] { return kept_->next_keys(); };
    PlacedRows placed{columns_->schema(), {kept_}, made_of(columns_, kept_)};
    auto give = [&](const GivePlaces& places) {
      // What is kept has counted the places, too.
      return sink ? give_rows(places, placed, limits.threads, memory_, *sink)
                  : give_rows(places, placed, limits.threads, take);
    };
    if (can_order_places(keys_)) {
      return give([&](const Take& take_places) {
        return give_ordered_places(next_keys, keys_[0], limits, take_places);
      });
    }
    WideQuery query(limits);
    query.add_input("input", key_lanes_, next_keys, kept_->rows());
    std::string sql = str("SELECT c", keys_.size(), " FROM input() ORDER BY ", order_by(keys_, 0));
    return give(placed.places_of(query, sql));
  }

 private:
  std::shared_ptr<arrow::RecordBatch> next() {
    auto batch = first_ ? std::move(first_) : rows_.next();
    first_ = nullptr;
    if (!batch) return nullptr;
    if (int64_t rows = rows_to_write_out(*batch); rows < batch->num_rows()) {
      first_ = batch->Slice(rows);
      batch = batch->Slice(0, rows);
    }
    arrow::ArrayVector all;
    columns_->encode(*batch, all);
    for (auto& key : keys_of_(*batch, row_)) all.push_back(std::move(key));
    all.push_back(KeptRows::places(batches_++, batch->num_rows()));
    row_ += batch->num_rows();
    return lanes_batch(std::move(all), batch->num_rows());
  }

  static DeferredRows::Make made_of(std::shared_ptr<const WideColumns> columns,
                                    std::shared_ptr<const KeptRows> kept) {
    return
        [columns, kept](const arrow::RecordBatch& places, const std::vector<std::string>& names) {
          std::vector<int> wanted;
          for (const auto& name : names) wanted.push_back(columns->schema()->GetFieldIndex(name));
          auto lanes = kept->gather(wanted, *places.column(0));
          return columns->decode_only(wanted, *lanes_batch(std::move(lanes), places.num_rows()));
        };
  }

  // All columns of all rows go through DuckDB.
  bool run_whole(const WideLimits& limits, const Take& take) {
    WideQuery query(limits);
    auto lanes = columns_->lanes();
    lanes.insert(lanes.end(), key_lanes_.begin(), key_lanes_.end());
    query.add_input("input", lanes, [this] { return kept_->next(); });
    // Without columns there are only so many rows.
    bool bare = columns_->size() == 0;
    auto given = bare ? std::vector{lanes.back()} : columns_->lanes();
    std::string sql =
        str("SELECT ", bare ? str("c", lanes.size() - 1) : lane_list("", 0, given.size()),
            " FROM input() ORDER BY ", order_by(keys_, columns_->size()));
    return query.run(sql, given, [&](const auto& batch) { take(columns_->decode(*batch)); });
  }

  const AllRows& rows_;
  std::shared_ptr<arrow::RecordBatch> first_;  // what comes before those of `rows_`
  const std::vector<OrderKey>& keys_;
  const KeysOf& keys_of_;
  const int64_t memory_;
  const std::shared_ptr<const WideColumns> columns_;
  const std::shared_ptr<KeptRows> kept_;
  std::vector<std::shared_ptr<arrow::DataType>> key_lanes_;
  int64_t row_ = 0, batches_ = 0;
};

bool sort_rows(const AllRows& rows, const std::vector<OrderKey>& keys, const KeysOf& keys_of,
               int64_t memory_bytes, const std::string& doing, RowSink* sink,
               const RowSort::Take& take) {
  auto first = rows.next();
  if (!first) return !rows.stopping || !rows.stopping();
  return RowSort(rows, std::move(first), keys, keys_of, memory_bytes, doing).run(sink, take);
}

}  // namespace

bool sort_rows(const AllRows& rows, const std::vector<OrderKey>& keys, const KeysOf& keys_of,
               int64_t memory_bytes, const std::string& doing,
               const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& take) {
  return sort_rows(rows, keys, keys_of, memory_bytes, doing, nullptr, take);
}

bool sort_rows(const AllRows& rows, const std::vector<OrderKey>& keys, const KeysOf& keys_of,
               int64_t memory_bytes, const std::string& doing, RowSink& sink) {
  return sort_rows(rows, keys, keys_of, memory_bytes, doing, &sink,
                   [&](const auto& batch) { sink.add(batch); });
}

struct OtherRows::Impl {
  Impl(std::shared_ptr<const Plan> plan, const AllRows& beside, int64_t memory_bytes)
      : known(schema_of(*plan)),
        stopping(beside.stopping),
        stream(std::move(plan), {.epoch = beside.epoch}, options(beside, memory_bytes)) {}

  static StreamOptions options(const AllRows& beside, int64_t memory_bytes) {
    StreamOptions options{
        .threads = beside.threads, .progress = beside.progress, .work = beside.work};
    if (memory_bytes > 0) options.byte_budget = std::min(options.byte_budget, memory_bytes / 8);
    return options;
  }

  SchemaPtr known;
  std::function<bool()> stopping;
  Stream stream;
  std::shared_ptr<arrow::RecordBatch> looked_at;
};

OtherRows::OtherRows(const std::shared_ptr<const Plan>& plan, const AllRows& beside,
                     int64_t memory_bytes)
    : impl_(std::make_unique<Impl>(plan, beside, memory_bytes)) {}
OtherRows::~OtherRows() = default;

std::shared_ptr<arrow::RecordBatch> OtherRows::next() {
  if (impl_->looked_at) return std::move(impl_->looked_at);
  if (impl_->stopping && impl_->stopping()) return nullptr;
  auto block = impl_->stream.next();
  return block ? std::move(block->batch) : nullptr;
}

SchemaPtr OtherRows::schema() {
  if (impl_->known) return impl_->known;
  if (!impl_->looked_at) impl_->looked_at = next();
  return impl_->looked_at ? impl_->looked_at->schema() : nullptr;
}

}  // namespace manta::data
