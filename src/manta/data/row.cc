#include "manta/data/row.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/row_batch_internal.h"
#include "manta/data/unknown_column_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace {

using data::read_cell;

// 2^63 and 2^64.
constexpr double kSignedEnd = 9223372036854775808.0, kUnsignedEnd = 18446744073709551616.0;

std::shared_ptr<arrow::Scalar> cast_scalar(const RowValue::Scalar& scalar,
                                           const std::shared_ptr<arrow::DataType>& type) {
  auto result = arrow::compute::Cast(arrow::Datum(scalar), type);
  return result.ok() ? result->scalar() : nullptr;
}

// Arrow converts these types to integers of the same number of bits.
RowValue::Scalar as_whole_number(const RowValue::Scalar& scalar) {
  auto id = scalar->type->id();
  bool short_one = id == arrow::Type::DATE32 || id == arrow::Type::TIME32;
  auto whole = short_one ? cast_scalar(scalar, arrow::int32()) : scalar;
  return whole ? cast_scalar(whole, arrow::int64()) : nullptr;
}

}  // namespace

bool RowValue::is_null() const {
  if (null_ || std::holds_alternative<std::monostate>(value_)) return true;
  auto* scalar = std::get_if<Scalar>(&value_);
  return scalar && (!*scalar || !(*scalar)->is_valid);
}

std::shared_ptr<arrow::DataType> RowValue::type() const {
  switch (value_.index()) {
    case 1:
      return arrow::boolean();
    case 2:
      return arrow::int64();
    case 3:
      return arrow::uint64();
    case 4:
      return arrow::float64();
    case 5:
      return arrow::utf8();
    case 6:
      return std::get<Scalar>(value_) ? std::get<Scalar>(value_)->type : nullptr;
    default:
      return nullptr;
  }
}

RowValue::Scalar RowValue::to_scalar() const {
  auto of = type();
  if (is_null()) return arrow::MakeNullScalar(of ? of : arrow::null());
  switch (value_.index()) {
    case 1:
      return arrow::MakeScalar(std::get<bool>(value_));
    case 2:
      return arrow::MakeScalar(std::get<int64_t>(value_));
    case 3:
      return arrow::MakeScalar(std::get<uint64_t>(value_));
    case 4:
      return arrow::MakeScalar(std::get<double>(value_));
    case 5:
      return arrow::MakeScalar(std::get<std::string>(value_));
    default:
      return std::get<Scalar>(value_);
  }
}

RowValue::Scalar RowValue::list_of(const std::vector<RowValue>& values, const RowValue& element) {
  auto builder = check(arrow::MakeBuilder(element.type()), "a list in a row");
  for (const auto& value : values) {
    check(builder->AppendScalar(*value.to_scalar()), "a list in a row");
  }
  return std::make_shared<arrow::ListScalar>(check(builder->Finish(), "a list in a row"));
}

void RowValue::fail(const std::string& what, const std::string& wanted) const {
  if (is_null()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("column '", what, "' is null in this row; ask for a std::optional"));
  }
  auto scalar = to_scalar();
  throw Error(ErrorKind::kInvalidArgument,
              str("column '", what, "' is ", data::printable(scalar->ToString()), ", of type ",
                  scalar->type->ToString(), ", which is not ", wanted));
}

int64_t RowValue::to_signed(const std::string& what) const {
  if (is_null()) fail(what, "");
  if (auto* number = std::get_if<int64_t>(&value_)) return *number;
  if (auto* number = std::get_if<uint64_t>(&value_)) {
    if (*number > INT64_MAX) fail(what, "an int64");
    return static_cast<int64_t>(*number);
  }
  if (auto* number = std::get_if<double>(&value_)) {
    if (!(*number >= -kSignedEnd && *number < kSignedEnd) || std::floor(*number) != *number) {
      fail(what, "an integer");
    }
    return static_cast<int64_t>(*number);
  }
  auto* scalar = std::get_if<Scalar>(&value_);
  auto whole = scalar ? as_whole_number(*scalar) : nullptr;
  if (!whole) fail(what, "an integer");
  return static_cast<const arrow::Int64Scalar&>(*whole).value;
}

uint64_t RowValue::to_unsigned(const std::string& what) const {
  if (is_null()) fail(what, "");
  if (auto* number = std::get_if<uint64_t>(&value_)) return *number;
  if (auto* number = std::get_if<double>(&value_); number && *number >= kSignedEnd) {
    if (!(*number < kUnsignedEnd)) fail(what, "an integer");
    return static_cast<uint64_t>(*number);
  }
  int64_t number = to_signed(what);
  if (number < 0) fail(what, "an unsigned integer");
  return static_cast<uint64_t>(number);
}

double RowValue::to_double(const std::string& what) const {
  if (is_null()) fail(what, "");
  if (auto* number = std::get_if<double>(&value_)) return *number;
  if (auto* number = std::get_if<int64_t>(&value_)) {
    auto rounded = static_cast<double>(*number);
    if (rounded >= kSignedEnd || static_cast<int64_t>(rounded) != *number) fail(what, "a double");
    return rounded;
  }
  if (auto* number = std::get_if<uint64_t>(&value_)) {
    auto rounded = static_cast<double>(*number);
    if (rounded >= kUnsignedEnd || static_cast<uint64_t>(rounded) != *number) {
      fail(what, "a double");
    }
    return rounded;
  }
  auto* scalar = std::get_if<Scalar>(&value_);
  auto number = scalar ? cast_scalar(*scalar, arrow::float64()) : nullptr;
  if (!number) fail(what, "a number");
  return static_cast<const arrow::DoubleScalar&>(*number).value;
}

bool RowValue::to_bool(const std::string& what) const {
  auto* flag = std::get_if<bool>(&value_);
  if (is_null() || !flag) fail(what, "a boolean");
  return *flag;
}

std::string RowValue::to_text(const std::string& what) const {
  auto* text = std::get_if<std::string>(&value_);
  if (!is_null() && text) return *text;
  auto* scalar = std::get_if<Scalar>(&value_);
  bool binary = !is_null() && scalar &&
                (arrow::is_binary_like((*scalar)->type->id()) ||
                 arrow::is_large_binary_like((*scalar)->type->id()) ||
                 arrow::is_binary_view_like((*scalar)->type->id()) ||
                 (*scalar)->type->id() == arrow::Type::FIXED_SIZE_BINARY);
  if (!binary) fail(what, "a text");
  return std::string(static_cast<const arrow::BaseBinaryScalar&>(**scalar).view());
}

std::vector<RowValue> RowValue::to_list(const std::string& what) const {
  auto* scalar = std::get_if<Scalar>(&value_);
  if (is_null() || !scalar || !arrow::is_list_like((*scalar)->type->id())) fail(what, "a list");
  const auto& list = *static_cast<const arrow::BaseListScalar&>(**scalar).value;
  std::vector<RowValue> values;
  for (int64_t i = 0; i < list.length(); ++i) values.push_back(read_cell(list, i));
  return values;
}

Row::Row(std::initializer_list<std::pair<std::string, RowValue>> values) {
  cells_.emplace();
  for (const auto& [name, value] : values) set(name, value);
}

Row::Row(std::shared_ptr<const arrow::RecordBatch> batch, int64_t index)
    : batch_(std::move(batch)), index_(index) {}

void Row::throw_unknown(const std::string& name) const {
  throw Error(ErrorKind::kNotFound, str("in a row: ", data::no_such_column(name, columns())));
}

RowValue Row::value(const std::string& name) const {
  if (cells_) {
    for (const auto& cell : *cells_) {
      if (cell.name != name) continue;
      return cell.column < 0 ? cell.value : read_cell(*batch_->column(cell.column), index_);
    }
  } else if (batch_) {
    int column = batch_->schema()->GetFieldIndex(name);
    if (column >= 0) return read_cell(*batch_->column(column), index_);
  }
  throw_unknown(name);
}

bool Row::has(const std::string& name) const {
  if (!cells_) return batch_ && batch_->schema()->GetFieldIndex(name) >= 0;
  for (const auto& cell : *cells_) {
    if (cell.name == name) return true;
  }
  return false;
}

std::vector<std::string> Row::columns() const {
  if (!cells_) return batch_ ? batch_->schema()->field_names() : std::vector<std::string>{};
  std::vector<std::string> names;
  for (const auto& cell : *cells_) names.push_back(cell.name);
  return names;
}

std::vector<Row::Cell>& Row::own_cells() {
  if (cells_) return *cells_;
  auto& cells = cells_.emplace();
  for (int i = 0; batch_ && i < batch_->num_columns(); ++i) {
    cells.push_back({batch_->column_name(i), i});
  }
  return cells;
}

Row& Row::set(const std::string& name, RowValue value) {
  auto& cells = own_cells();
  for (auto& cell : cells) {
    if (cell.name != name) continue;
    cell.column = -1;
    cell.value = std::move(value);
    return *this;
  }
  cells.push_back({name, -1, std::move(value)});
  return *this;
}

Row& Row::drop(const std::string& name) {
  if (!has(name)) throw_unknown(name);
  std::erase_if(own_cells(), [&](const Cell& cell) { return cell.name == name; });
  return *this;
}

std::string Row::to_string() const {
  std::string text;
  for (const auto& name : columns()) {
    RowValue each = value(name);
    std::string shown = "null";
    if (!each.is_null()) {
      auto scalar = each.as<RowValue::Scalar>(name);
      auto array = check(arrow::MakeArrayFromScalar(*scalar, 1), "printing a row");
      shown = data::cell_text(*array, 0);
      if (std::holds_alternative<std::string>(each.variant())) shown = str("\"", shown, "\"");
    }
    text += str(text.empty() ? "" : ", ", data::printable(name), ": ", shown);
  }
  return str("{", text, "}");
}

}  // namespace manta
