#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/float16.h>

#include <unordered_map>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/row_batch_internal.h"
#include "manta/data/row_function.h"
#include "manta/data/row_mask_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using arrow::Type;
using TypePtr = std::shared_ptr<arrow::DataType>;
constexpr const char* kOfRows = "making a batch of rows";

// What values of a type are read as, and set as: int64, uint64, float64, utf8, bool; else itself.
TypePtr natural_type(const TypePtr& type) {
  switch (type->id()) {
    case Type::BOOL:
      return arrow::boolean();
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
      return arrow::int64();
    case Type::UINT64:
      return arrow::uint64();
    case Type::HALF_FLOAT:
    case Type::FLOAT:
    case Type::DOUBLE:
      return arrow::float64();
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::STRING_VIEW:
      return arrow::utf8();
    default:
      return type;
  }
}

bool is_whole_number(const arrow::DataType& type) {
  return type.id() == Type::INT64 || type.id() == Type::UINT64;
}

// Builds one column of rows.
class RowColumn {
 public:
  RowColumn(std::string name, std::shared_ptr<arrow::Array> before)
      : name_(std::move(name)), before_(std::move(before)) {}

  // A value of it, of the row that came of row `of` of the batch.
  void add(const Row::Cell& cell, int64_t of) {
    bool kept = cell.column >= 0;
    places_.push_back(kept ? of : -1);
    any_kept_ = any_kept_ || kept;
    if (kept) {
      values_.emplace_back();
      return;
    }
    values_.push_back(cell.value);
    any_set_ = true;
    auto type = cell.value.type();
    if (!type) return;
    if (!set_type_) set_type_ = type;
    if (!set_type_->Equals(*type)) {
      fail(of, str("has a value of type ", type->ToString(), ", and others have ",
                   set_type_->ToString(), "; set values of the same type in every row"));
    }
  }

  std::shared_ptr<arrow::Array> finish() {
    if (!any_set_) return kept();
    TypePtr type = before_ ? before_->type() : arrow::null();
    TypePtr built = set_type_ ? set_type_ : natural_type(type);
    bool stays = before_ && (!set_type_ || goes_with(*natural_type(type)));
    if (stays && !is_whole_number(*built)) built = natural_type(type);
    if (any_kept_) read_kept(*built);
    auto array = build(built);
    if (!stays || array->type()->Equals(*type)) return array;
    auto options = arrow::compute::CastOptions::Safe(type);
    options.allow_float_truncate = true;  // rounds to a float32
    auto fitted = arrow::compute::Cast(*array, type, options);
    if (!fitted.ok()) {
      fail(-1, str("is of type ", type->ToString(), ", and a value that was set does not fit: ",
                   fitted.status().message(), "; cast the column before"));
    }
    return *fitted;
  }

 private:
  [[noreturn]] void fail(int64_t of, const std::string& what) const {
    throw RowFunctionError(str("gave rows whose column '", printable(name_), "' ", what,
                               of >= 0 ? str(", at row ", of, " of the batch") : ""));
  }

  bool goes_with(const arrow::DataType& natural) const {
    return set_type_->Equals(natural) || (is_whole_number(*set_type_) && is_whole_number(natural));
  }

  std::shared_ptr<arrow::Array> kept() const {
    bool as_it_is = static_cast<int64_t>(places_.size()) == before_->length();
    for (size_t i = 0; as_it_is && i < places_.size(); ++i) {
      as_it_is = places_[i] == static_cast<int64_t>(i);
    }
    if (as_it_is) return before_;
    arrow::Int64Builder indices;
    check(indices.AppendValues(places_), kOfRows);
    return take_rows(*before_, *check(indices.Finish(), kOfRows));
  }

  void read_kept(const arrow::DataType& type) {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (places_[i] < 0) continue;
      values_[i] = read_cell(*before_, places_[i]);
      auto kept_type = values_[i].type();
      if (values_[i].is_null() || (kept_type && kept_type->Equals(type))) continue;
      bool number = kept_type && is_whole_number(*kept_type) &&
                    (is_whole_number(type) || type.id() == Type::DOUBLE);
      if (!number) {
        fail(places_[i],
             str("keeps a value of type ", before_->type()->ToString(), ", and others have ",
                 type.ToString(), "; set it in every row, or in none"));
      }
    }
  }

  template <class Builder, class Value>
  std::shared_ptr<arrow::Array> build_with() {
    Builder builder;
    check(builder.Reserve(static_cast<int64_t>(values_.size())), kOfRows);
    for (size_t i = 0; i < values_.size(); ++i) {
      const RowValue& value = values_[i];
      try {
        check(value.is_null() ? builder.AppendNull() : builder.Append(value.as<Value>(name_)),
              kOfRows);
      } catch (const Error& error) {
        fail(places_[i], str("does not fit: ", error.what()));
      }
    }
    return check(builder.Finish(), kOfRows);
  }

  std::shared_ptr<arrow::Array> build(const TypePtr& type) {
    switch (type->id()) {
      case Type::BOOL:
        return build_with<arrow::BooleanBuilder, bool>();
      case Type::INT64:
        return build_with<arrow::Int64Builder, int64_t>();
      case Type::UINT64:
        return build_with<arrow::UInt64Builder, uint64_t>();
      case Type::DOUBLE:
        return build_with<arrow::DoubleBuilder, double>();
      case Type::STRING:
        return build_with<arrow::StringBuilder, std::string>();
      default:
        break;
    }
    auto builder = check(arrow::MakeBuilder(type), kOfRows);
    for (const auto& value : values_) {
      check(value.is_null() ? builder->AppendNull()
                            : builder->AppendScalar(*value.as<RowValue::Scalar>(name_)),
            kOfRows);
    }
    return check(builder->Finish(), kOfRows);
  }

  const std::string name_;
  const std::shared_ptr<arrow::Array> before_;  // the column of that name; null if there was none
  std::vector<int64_t> places_;                 // of rows that keep it; else -1
  std::vector<RowValue> values_;                // of the others
  TypePtr set_type_;                            // of the values that were set; null: only nulls
  bool any_kept_ = false, any_set_ = false;
};

// The cells of a row, also if it is as it was.
const std::vector<Row::Cell>& cells_of(const Row& row, std::vector<Row::Cell>& own) {
  if (row.cells()) return *row.cells();
  own.clear();
  for (int i = 0; row.batch() && i < row.batch()->num_columns(); ++i) {
    own.push_back({row.batch()->column_name(i), i});
  }
  return own;
}

// Calls a user's function on each row.
template <class Call>
void for_each_row(const BatchPtr& batch, Call call) {
  std::shared_ptr<const arrow::RecordBatch> rows = batch;
  for (int64_t i = 0; i < batch->num_rows(); ++i) {
    Row row(rows, i);
    try {
      call(row, i);
    } catch (const std::exception& error) {
      throw RowFunctionError(str("threw ", demangle(typeid(error).name()), ": ", error.what(),
                                 ", at row ", i, " of the batch: ", row.to_string()));
    } catch (...) {
      throw RowFunctionError(
          str("threw what is no std::exception, at row ", i, " of the batch: ", row.to_string()));
    }
  }
}

}  // namespace

RowValue read_cell(const arrow::Array& column, int64_t row) {
  auto value = [&](auto* array) { return array->Value(row); };
  auto null_of = [](TypePtr type) { return RowValue(arrow::MakeNullScalar(std::move(type))); };
  if (column.type_id() == Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(column);
    if (column.IsNull(row)) return null_of(natural_type(dictionary.dictionary()->type()));
    return read_cell(*dictionary.dictionary(), dictionary.GetValueIndex(row));
  }
  if (column.IsNull(row)) return null_of(natural_type(column.type()));
  switch (column.type_id()) {
    case Type::BOOL:
      return value(static_cast<const arrow::BooleanArray*>(&column));
    case Type::INT8:
      return value(static_cast<const arrow::Int8Array*>(&column));
    case Type::INT16:
      return value(static_cast<const arrow::Int16Array*>(&column));
    case Type::INT32:
      return value(static_cast<const arrow::Int32Array*>(&column));
    case Type::INT64:
      return value(static_cast<const arrow::Int64Array*>(&column));
    case Type::UINT8:
      return value(static_cast<const arrow::UInt8Array*>(&column));
    case Type::UINT16:
      return value(static_cast<const arrow::UInt16Array*>(&column));
    case Type::UINT32:
      return value(static_cast<const arrow::UInt32Array*>(&column));
    case Type::UINT64:
      return value(static_cast<const arrow::UInt64Array*>(&column));
    case Type::FLOAT:
      return value(static_cast<const arrow::FloatArray*>(&column));
    case Type::DOUBLE:
      return value(static_cast<const arrow::DoubleArray*>(&column));
    case Type::HALF_FLOAT:
      return arrow::util::Float16::FromBits(
                 value(static_cast<const arrow::HalfFloatArray*>(&column)))
          .ToDouble();
    case Type::STRING:
      return static_cast<const arrow::StringArray&>(column).GetView(row);
    case Type::LARGE_STRING:
      return static_cast<const arrow::LargeStringArray&>(column).GetView(row);
    case Type::STRING_VIEW:
      return static_cast<const arrow::StringViewArray&>(column).GetView(row);
    default:
      return check(column.GetScalar(row), "reading a value of a row");
  }
}

BatchPtr batch_of_rows(const std::shared_ptr<const arrow::RecordBatch>& from,
                       const std::vector<Row>& rows) {
  if (rows.empty()) return arrow::RecordBatch::Make(arrow::schema({}), 0, arrow::ArrayVector());
  std::vector<Row::Cell> own;
  std::vector<std::string> names;
  std::vector<RowColumn> columns;
  std::unordered_map<std::string, size_t> by_name;
  for (const auto& cell : cells_of(rows[0], own)) {
    by_name[cell.name] = names.size();
    names.push_back(cell.name);
    columns.emplace_back(cell.name, from->GetColumnByName(cell.name));
  }
  for (const auto& row : rows) {
    const auto& cells = cells_of(row, own);
    bool keeps = row.batch() != nullptr;
    if (keeps && row.batch() != from) {
      throw RowFunctionError(
          "gave a row that it has kept from another batch; make a new Row of its values");
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      size_t at = i;
      if (i >= names.size() || names[i] != cells[i].name) {
        auto found = by_name.find(cells[i].name);
        at = found == by_name.end() ? names.size() : found->second;
      }
      if (at == names.size() || cells.size() != names.size()) {
        throw RowFunctionError(str("gave rows with different columns: {", join(names),
                                   "} first, then {", join(row.columns()),
                                   "}; give every row the same ones, with nullptr for null"));
      }
      columns[at].add(cells[i], row.index());
    }
    if (cells.empty() && !names.empty()) {
      throw RowFunctionError(
          str("gave rows with different columns: {", join(names), "} first, then none"));
    }
  }
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    arrays.push_back(columns[i].finish());
    fields.push_back(arrow::field(names[i], arrays.back()->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), static_cast<int64_t>(rows.size()), arrays);
}

namespace detail {

BatchPtr map_rows(const BatchPtr& batch, const std::function<Row(const Row&)>& function) {
  std::vector<Row> rows;
  rows.reserve(static_cast<size_t>(batch->num_rows()));
  for_each_row(batch, [&](const Row& row, int64_t) { rows.push_back(function(row)); });
  return batch_of_rows(batch, rows);
}

BatchPtr flat_map_rows(const BatchPtr& batch,
                       const std::function<std::vector<Row>(const Row&)>& function) {
  std::vector<Row> rows;
  for_each_row(batch, [&](const Row& row, int64_t) {
    for (auto& each : function(row)) rows.push_back(std::move(each));
  });
  return batch_of_rows(batch, rows);
}

BatchPtr filter_rows(const BatchPtr& batch, const std::function<bool(const Row&)>& function) {
  std::vector<uint8_t> bits(static_cast<size_t>(batch->num_rows()) / 8 + 1, 0);
  for_each_row(batch, [&](const Row& row, int64_t i) {
    if (function(row)) {
      auto& byte = bits[static_cast<size_t>(i) / 8];
      byte = static_cast<uint8_t>(byte | 1u << (i % 8));
    }
  });
  Piece piece = to_piece(*batch);
  RowMask mask(piece.rows);
  mask.keep_bits(bits.data(), 0);
  mask.apply(piece);
  return to_batch(std::move(piece));
}

void visit_rows(const BatchPtr& batch, const std::function<void(const Row&)>& function) {
  for_each_row(batch, [&](const Row& row, int64_t) { function(row); });
}

}  // namespace detail
}  // namespace manta::data
