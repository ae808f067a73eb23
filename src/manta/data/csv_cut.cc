#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/csv/chunker.h>
#include <arrow/csv/parser.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/delimiting.h>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/csv_arrow_internal.h"
#include "manta/data/csv_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kHeaderBytes = 64 << 10;

// Bytes that are not UTF-8, and zeros, mostly come from another encoding.
void check_name(const std::string& name, const CsvFile& file) {
  if (is_utf8(name) && name.find('\0') == std::string::npos) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("read_csv: '", file.path, "' has a column '", printable(name),
                  "' in its header, which is no UTF-8 text: convert the file, e.g. with iconv"));
}

// Most likely it has a quote that is never closed.
[[noreturn]] void throw_endless(const CsvFile& file, int64_t offset) {
  throw Error(ErrorKind::kCorrupt,
              str("read_csv: '", file.path, "', line ", line_at(file, offset),
                  ": the record that begins there does not end within ", kLongestRecord >> 20,
                  " MiB; is a quote missing, or the delimiter another one?"));
}

}  // namespace

arrow::csv::ParseOptions parse_options(const CsvFormat& format) {
  auto options = arrow::csv::ParseOptions::Defaults();
  options.delimiter = format.delimiter;
  options.quoting = format.quote != 0;
  if (options.quoting) options.quote_char = format.quote;
  options.newlines_in_values = true;
  return options;
}

std::string_view whole_records(std::string_view text, const CsvFormat& format, bool at_end) {
  if (at_end) return text;
  // Without quotes each line is a record, which is found much faster.
  if (format.quote == 0 || text.find(format.quote) == std::string_view::npos) {
    return text.substr(0, text.find_last_of("\r\n") + 1);
  }
  auto block = std::make_shared<arrow::Buffer>(text);
  std::shared_ptr<arrow::Buffer> whole, partial;
  auto status = arrow::csv::MakeChunker(parse_options(format))->Process(block, &whole, &partial);
  if (!status.ok()) throw read_error(status, "read_csv: looking for the end of a record");
  return text.substr(0, static_cast<size_t>(whole->size()));
}

CsvText first_records(const CsvFile& file, const CsvFormat& format, int64_t offset, int64_t bytes) {
  for (;; bytes *= 4) {
    bool at_end = offset + bytes >= file.size;
    auto buffer = read_bytes(file, offset, at_end ? file.size - offset : bytes);
    auto records = whole_records(std::string_view(*buffer), format, at_end);
    bool has_record = records.find_first_not_of("\r\n") != std::string_view::npos;
    if (at_end || has_record) return {std::move(buffer), records, at_end};
    if (bytes >= kLongestRecord) throw_endless(file, offset);
  }
}

CsvStart find_start(const CsvFile& file, const CsvFormat& format, std::vector<std::string> names) {
  CsvStart start{std::move(names), after_mark(file)};
  if (!start.names.empty()) return start;
  CsvText text = first_records(file, format, start.offset, kHeaderBytes);
  if (text.records.find_first_not_of("\r\n") == std::string_view::npos) {
    throw Error(ErrorKind::kInvalidArgument,
                str("read_csv: '", file.path, "' ", file.size == 0 ? "is empty" : "has no records",
                    ", so it has no header; leave it out, or name its .column_names"));
  }
  arrow::csv::BlockParser parser(parse_options(format), -1, -1, 1);
  uint32_t parsed = 0;
  auto status = parser.ParseFinal(text.records, &parsed);
  if (!status.ok()) {
    throw read_error(status, str("read_csv: reading the header of '", file.path, "'"));
  }
  auto header = text.records.substr(0, parsed);
  if (text.at_end && header.size() == text.records.size()) {
    check_last_record(header, file, format, start.offset);
  }
  auto take = [&](const uint8_t* data, uint32_t size, bool, bool) {
    start.names.emplace_back(reinterpret_cast<const char*>(data), size);
    check_name(start.names.back(), file);
    return arrow::Status::OK();
  };
  static_cast<void>(parser.VisitLastRow(take));
  start.offset += parsed;
  return start;
}

FileParts cut_records(const CsvFile& file, const CsvFormat& format, int64_t offset, int64_t bytes) {
  auto whole = [&](std::string_view text, bool at_end) {
    return whole_records(text, format, at_end).size();
  };
  return cut_into_parts(file, offset, bytes, whole, [&](int64_t at) { throw_endless(file, at); });
}

void check_last_record(std::string_view text, const CsvFile& file, const CsvFormat& format,
                       int64_t offset) {
  if (format.quote == 0 || text.find(format.quote) == std::string_view::npos) return;
  std::string with_line_end(text);
  if (!text.ends_with('\n') && !text.ends_with('\r')) with_line_end += '\n';
  size_t whole = whole_records(with_line_end, format, false).size();
  if (whole == with_line_end.size()) return;
  throw Error(
      ErrorKind::kCorrupt,
      str("read_csv: '", file.path, "', line ", line_at(file, offset + static_cast<int64_t>(whole)),
          ": the record that begins there has a quote that is never closed; add it, or tell "
          "read_csv another .quote"));
}

}  // namespace manta::data
