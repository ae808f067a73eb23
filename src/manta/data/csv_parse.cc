#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/csv/converter.h>
#include <arrow/csv/parser.h>

#include <algorithm>
#include <map>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/csv_arrow_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using arrow::csv::BlockParser;

constexpr int64_t kSampleBytes = 1 << 20;
constexpr size_t kWidestLine = 80;

std::string begin_of(const CsvFile& file, int64_t offset) {
  return str("read_csv: '", file.path, "', line ", line_at(file, offset), ": ");
}

// Parses as many records as one block may have. Returns how many bytes they take.
size_t parse_block(BlockParser& parser, std::string_view text, const CsvFile& file, int64_t offset,
                   std::optional<Error>& bad_record) {
  uint32_t parsed = 0;
  auto status = parser.ParseFinal(text, &parsed);
  if (bad_record) throw *bad_record;
  if (!status.ok()) {
    throw Error(ErrorKind::kCorrupt,
                str(begin_of(file, offset), "from there on, ", status.message()));
  }
  if (parsed == 0) {
    throw Error(ErrorKind::kCorrupt,
                str(begin_of(file, offset),
                    "the record that begins there does not end; is a quote missing?"));
  }
  return parsed;
}

// Handles a record with too few or too many values, as Arrow's parser reports it.
arrow::csv::InvalidRowHandler keep_bad_record(std::string_view text, const CsvFile& file,
                                              int64_t offset, char delimiter,
                                              std::optional<Error>& bad_record) {
  return [=, &file, &bad_record](const arrow::csv::InvalidRow& row) {
    auto at = std::max<int64_t>(row.text.data() - text.data(), 0);
    bad_record.emplace(ErrorKind::kCorrupt,
                       str(begin_of(file, offset + at), row.expected_columns,
                           " values were expected, one for each column, and there are ",
                           row.actual_columns, ": ", printable(row.text, kWidestLine),
                           "; correct the line, or tell read_csv another .delimiter than '",
                           printable(std::string_view(&delimiter, 1)), "' or another .quote"));
    return arrow::csv::InvalidRowResult::Error;
  };
}

}  // namespace

CsvRecords::CsvRecords(CsvFormat format, std::shared_ptr<arrow::Schema> schema,
                       std::vector<std::string> given)
    : format_(std::move(format)), schema_(std::move(schema)), given_(std::move(given)) {}

void CsvRecords::parse(std::string_view text, const CsvFile& file, int64_t offset,
                       const std::vector<std::string>& columns, int64_t piece_rows,
                       const TakeBatch& take) const {
  std::vector<std::pair<int, CsvConverter>> converters;
  arrow::FieldVector fields;
  for (const auto& name : columns) {
    int index = schema_->GetFieldIndex(name);
    fields.push_back(schema_->field(index));
    converters.emplace_back(index, CsvConverter(fields.back()->type(), format_));
  }
  auto batch_schema = arrow::schema(fields);
  auto rows_at_most =
      static_cast<int32_t>(std::min<int64_t>(piece_rows, arrow::csv::kMaxParserNumRows));
  while (!text.empty()) {
    std::optional<Error> bad_record;
    auto options = parse_options(format_);
    options.invalid_row_handler =
        keep_bad_record(text, file, offset, format_.delimiter, bad_record);
    BlockParser parser(options, schema_->num_fields(), -1, rows_at_most);
    size_t parsed = parse_block(parser, text, file, offset, bad_record);
    arrow::ArrayVector arrays;
    for (const auto& [index, converter] : converters) {
      auto array = converter.convert(parser, index);
      if (array.status().IsInvalid()) {
        throw_bad_value(text.substr(0, parsed), file, offset, index);
      }
      arrays.push_back(check(std::move(array), str("read_csv: reading '", file.path, "'")));
    }
    if (parser.num_rows() > 0) {
      take(arrow::RecordBatch::Make(batch_schema, parser.num_rows(), std::move(arrays)));
    }
    text.remove_prefix(parsed);
    offset += static_cast<int64_t>(parsed);
  }
}

// Parses record by record, to find the bad one.
void CsvRecords::throw_bad_value(std::string_view text, const CsvFile& file, int64_t offset,
                                 int column) const {
  const auto& field = *schema_->field(column);
  CsvConverter converter(field.type(), format_);
  while (!text.empty()) {
    // Empty lines before a record are parsed with it.
    size_t empty = std::min(text.find_first_not_of("\r\n"), text.size());
    text.remove_prefix(empty);
    offset += static_cast<int64_t>(empty);
    BlockParser parser(parse_options(format_), schema_->num_fields(), -1, 1);
    uint32_t parsed = 0;
    if (!parser.ParseFinal(text, &parsed).ok() || parsed == 0) break;
    if (parser.num_rows() == 1 && !converter.convert(parser, column).ok()) {
      std::string value;
      auto take = [&](const uint8_t* data, uint32_t size, bool, bool) {
        value.assign(reinterpret_cast<const char*>(data), size);
        return arrow::Status::OK();
      };
      static_cast<void>(parser.VisitColumn(column, take));
      bool was_given = contains(given_, field.name());
      throw Error(
          ErrorKind::kInvalidArgument,
          str(begin_of(file, offset), "column '", field.name(), "' has the value '",
              printable(value, kWidestLine), "', which is no ", csv_type_name(*field.type()),
              was_given ? ", as .column_types says; "
                        : ", the type of the first values of the files; ",
              "give the column another type: .column_types = {{\"", field.name(), "\", \"",
              csv_type_name(*first_that_fits(wider_types(*field.type()), parser, column, format_)),
              "\"}}, or name the value among .null_values"));
    }
    text.remove_prefix(parsed);
    offset += parsed;
  }
  throw Error(ErrorKind::kCorrupt, str(begin_of(file, offset), "column '", field.name(),
                                       "' cannot be read as ", csv_type_name(*field.type())));
}

CsvSample take_sample(const CsvFile& file, const CsvFormat& format, const CsvStart& start,
                      const std::map<std::string, std::string>& given) {
  for (const auto& [name, type] : given) {
    if (!contains(start.names, name)) {
      throw Error(ErrorKind::kNotFound, str("read_csv: .column_types of '", file.path,
                                            "': ", no_such_column(name, start.names)));
    }
  }
  CsvText first = first_records(file, format, start.offset, kSampleBytes);
  std::string_view text = first.records;
  std::optional<Error> bad_record;
  auto options = parse_options(format);
  options.invalid_row_handler =
      keep_bad_record(text, file, start.offset, format.delimiter, bad_record);
  BlockParser parser(options, static_cast<int32_t>(start.names.size()));
  CsvSample sample;
  if (!text.empty()) {
    sample.bytes = static_cast<int64_t>(parse_block(parser, text, file, start.offset, bad_record));
    sample.rows = parser.num_rows();
  }
  arrow::FieldVector fields;
  for (size_t i = 0; i < start.names.size(); ++i) {
    auto type = arrow::null();
    if (auto found = given.find(start.names[i]); found != given.end()) {
      type = csv_type(found->second);
    } else if (sample.rows > 0) {
      type = first_that_fits(inferred_csv_types(), parser, static_cast<int>(i), format);
    }
    fields.push_back(arrow::field(start.names[i], type));
  }
  sample.schema = arrow::schema(fields);
  return sample;
}

}  // namespace manta::data
