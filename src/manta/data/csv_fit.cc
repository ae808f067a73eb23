#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/csv/api.h>
#include <arrow/csv/converter.h>
#include <arrow/csv/parser.h>
#include <arrow/util/decimal.h>

#include <algorithm>
#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/data/csv_arrow_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/float_overflow_internal.h"
#include "manta/data/json_values_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using arrow::csv::BlockParser;
using arrow::csv::Converter;
using arrow::csv::ConvertOptions;

bool is_integer(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether a column has only integers, some of them with more than 64 bits: float64 would round
// them, and such numbers are mostly ids.
bool has_long_integers(const BlockParser& parser, int column, const CsvFormat& format) {
  bool some = false;
  auto look = [&](const uint8_t* data, uint32_t size, bool, bool) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    if (std::find(format.null_values.begin(), format.null_values.end(), text) !=
        format.null_values.end()) {
      return arrow::Status::OK();
    }
    if (!is_integer(text)) return arrow::Status::Cancelled("a fraction");
    int64_t fits = 0;
    text.remove_prefix(text.starts_with('+') ? 1 : 0);
    auto parsed = std::from_chars(text.data(), text.data() + text.size(), fits);
    some = some || parsed.ec == std::errc::result_out_of_range;
    return arrow::Status::OK();
  };
  return parser.VisitColumn(column, look).ok() && some;
}

template <class Type>
arrow::Result<std::shared_ptr<arrow::Array>> to_decimals(
    const arrow::Array& column, const std::shared_ptr<arrow::DataType>& type) {
  const auto& texts = static_cast<const arrow::StringArray&>(column);
  using Builder = typename arrow::TypeTraits<Type>::BuilderType;
  Builder builder(type);
  ARROW_RETURN_NOT_OK(builder.Reserve(texts.length()));
  for (int64_t i = 0; i < texts.length(); ++i) {
    if (texts.IsNull(i)) {
      builder.UnsafeAppendNull();
      continue;
    }
    std::string_view text = texts.GetView(i);
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    text = text.substr(0, text.find_last_not_of(" \t") + 1);
    typename Builder::ValueType value;
    if (!parse_decimal(static_cast<const Type&>(*type), text, value)) {
      return arrow::Status::Invalid("no number, or too many digits");
    }
    builder.UnsafeAppend(value);
  }
  return builder.Finish();
}

}  // namespace

CsvConverter::CsvConverter(std::shared_ptr<arrow::DataType> type, const CsvFormat& format)
    : type_(std::move(type)),
      options_(std::make_unique<ConvertOptions>(ConvertOptions::Defaults())) {
  options_->null_values = format.null_values;
  options_->strings_can_be_null = format.strings_can_be_null;
  options_->quoted_strings_can_be_null = format.quoted_can_be_null;
  auto made = type_;
  if (type_->id() == arrow::Type::HALF_FLOAT) made = arrow::float64();
  if (arrow::is_decimal(type_->id())) {
    made = arrow::utf8();
    options_->strings_can_be_null = true;  // this option is for columns of texts
  }
  converter_ = check(Converter::Make(made, *options_),
                     str("read_csv: making values of ", type_->ToString()));
}

arrow::Result<std::shared_ptr<arrow::Array>> CsvConverter::convert(const BlockParser& parser,
                                                                   int column) const {
  ARROW_ASSIGN_OR_RAISE(auto values, converter_->Convert(parser, column));
  if (type_->id() == arrow::Type::DECIMAL128) {
    return to_decimals<arrow::Decimal128Type>(*values, type_);
  }
  if (type_->id() == arrow::Type::DECIMAL256) {
    return to_decimals<arrow::Decimal256Type>(*values, type_);
  }
  if (values->type()->Equals(*type_)) return values;
  start_compute();
  ARROW_ASSIGN_OR_RAISE(auto cast, arrow::compute::Cast(*values, type_));
  // Arrow turns numbers that are too large into infinities.
  if (arrow::is_floating(type_->id()) && first_overflow(values, cast)) {
    return arrow::Status::Invalid("too large");
  }
  return cast;
}

CsvTypes wider_types(const arrow::DataType& type) {
  auto timestamp = [](arrow::TimeUnit::type unit, const std::string& zone) {
    return arrow::timestamp(unit, zone);
  };
  CsvTypes wider;
  switch (type.id()) {
    case arrow::Type::NA:
      return inferred_csv_types();
    case arrow::Type::INT64:
    case arrow::Type::UINT64:
      wider = {arrow::float64()};
      break;
    case arrow::Type::DATE32:
      wider = {timestamp(arrow::TimeUnit::SECOND, ""), timestamp(arrow::TimeUnit::NANO, "")};
      break;
    case arrow::Type::TIMESTAMP:
      wider = {timestamp(arrow::TimeUnit::NANO,
                         static_cast<const arrow::TimestampType&>(type).timezone())};
      break;
    default:
      break;
  }
  wider.push_back(arrow::utf8());
  wider.push_back(arrow::binary());
  return wider;
}

std::shared_ptr<arrow::DataType> first_that_fits(const CsvTypes& types, const BlockParser& parser,
                                                 int column, const CsvFormat& format) {
  for (const auto& type : types) {
    if (!CsvConverter(type, format).convert(parser, column).ok()) continue;
    if (type->id() == arrow::Type::DOUBLE && has_long_integers(parser, column, format)) continue;
    return type;
  }
  return types.back();
}

}  // namespace manta::data
