#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/csv/converter.h>
#include <arrow/csv/parser.h>

#include <algorithm>
#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/data/csv_arrow_internal.h"
#include "manta/data/csv_internal.h"
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

// Whether a column has nothing but integers, of which some have more than 64 bits: as float64 they
// would be rounded, and such numbers mostly name things.
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

}  // namespace

ConvertOptions convert_options(const CsvFormat& format) {
  auto options = ConvertOptions::Defaults();
  options.null_values = format.null_values;
  options.strings_can_be_null = format.strings_can_be_null;
  options.quoted_strings_can_be_null = format.quoted_can_be_null;
  return options;
}

std::shared_ptr<Converter> make_converter(const std::shared_ptr<arrow::DataType>& type,
                                          const ConvertOptions& options) {
  return check(Converter::Make(type, options),
               str("read_csv: making values of ", type->ToString()));
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
  auto convert = convert_options(format);
  for (const auto& type : types) {
    if (!make_converter(type, convert)->Convert(parser, column).ok()) continue;
    if (type->id() == arrow::Type::DOUBLE && has_long_integers(parser, column, format)) continue;
    return type;
  }
  return types.back();
}

}  // namespace manta::data
