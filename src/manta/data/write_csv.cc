#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/writer.h>

#include <cctype>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/write_files_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

constexpr const char* kAsCsv = "as CSV";
// Characters of values that are not in quotes: numbers, booleans, dates, times.
constexpr std::string_view kOfValues = "+-.: ";
constexpr std::string_view kNeedQuotes = "\"\r\n";

bool is_in(std::string_view characters, char c) {
  return characters.find(c) != std::string_view::npos;
}

void check_options(const WriteCsvOptions& options) {
  auto fail = [](const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument, "write_csv: " + what);
  };
  char delimiter = options.delimiter;
  if (delimiter == '\0' || std::isalnum(static_cast<unsigned char>(delimiter)) ||
      is_in(kOfValues, delimiter) || is_in(kNeedQuotes, delimiter)) {
    fail(str("the .delimiter cannot be '", printable(std::string_view(&delimiter, 1)),
             "', which may be in a value; take ',', ';', '|' or a tab"));
  }
  for (char c : options.null_value) {
    if (c != delimiter && !is_in(kNeedQuotes, c)) continue;
    fail(str("the .null_value is written without quotes, so '", printable(options.null_value),
             "' cannot be read again; take one without quotes, line ends and the .delimiter"));
  }
}

// The batch with types that Arrow's writer knows.
std::shared_ptr<arrow::RecordBatch> plain_batch(const arrow::RecordBatch& batch) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int i = 0; i < batch.num_columns(); ++i) {
    columns.push_back(plain_column(batch.column(i)));
    fields.push_back(arrow::field(batch.column_name(i), columns.back()->type()));
  }
  return without_shared_values(
      arrow::RecordBatch::Make(arrow::schema(fields), batch.num_rows(), columns));
}

class CsvWriter final : public FileWriter {
 public:
  CsvWriter(std::shared_ptr<arrow::io::OutputStream> to,
            const std::shared_ptr<arrow::Schema>& schema, const WriteCsvOptions& options)
      : options_(options) {
    auto write = arrow::csv::WriteOptions::Defaults();
    write.delimiter = options.delimiter;
    write.null_string = options.null_value;
    auto plain = plain_batch(*check(arrow::RecordBatch::MakeEmpty(schema), kAsCsv))->schema();
    writer_ = check(arrow::csv::MakeCSVWriter(std::move(to), plain, write), kAsCsv);
  }
  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    auto plain = plain_batch(*batch);
    if (options_.null_value.empty() && plain->num_columns() == 1 &&
        plain->column(0)->null_count() > 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("a null of '", plain->column_name(0),
                      "', the only column, would be an empty line, which does not count when it is "
                      "read; give write_csv a .null_value such as \"NA\""));
    }
    check(writer_->WriteRecordBatch(*plain), kAsCsv);
  }
  void finish() override { check(writer_->Close(), kAsCsv); }

 private:
  const WriteCsvOptions& options_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace
}  // namespace data

int64_t Dataset::write_csv(const std::string& folder, const WriteCsvOptions& options) const {
  data::check_options(options);
  data::FilesToWrite files{folder, "write_csv", ".csv", options.rows_per_file, options.overwrite};
  return data::write_files(*this, files, [&](auto to, const auto& schema) {
    return std::make_unique<data::CsvWriter>(std::move(to), schema, options);
  });
}

}  // namespace manta
