#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/writer.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/write_files_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

constexpr const char* kWritingCsv = "write_csv";

class CsvWriter final : public FileWriter {
 public:
  CsvWriter(std::shared_ptr<arrow::io::OutputStream> to,
            const std::shared_ptr<arrow::Schema>& schema, const WriteCsvOptions& options) {
    auto write = arrow::csv::WriteOptions::Defaults();
    write.delimiter = options.delimiter;
    write.null_string = options.null_value;
    writer_ = check(arrow::csv::MakeCSVWriter(std::move(to), schema, write), kWritingCsv);
  }
  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    check(writer_->WriteRecordBatch(*batch), kWritingCsv);
  }
  void finish() override { check(writer_->Close(), kWritingCsv); }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace
}  // namespace data

int64_t Dataset::write_csv(const std::string& folder, const WriteCsvOptions& options) const {
  data::FilesToWrite files{folder, "write_csv", ".csv", options.rows_per_file, options.overwrite};
  return data::write_files(*this, files, [&](auto to, const auto& schema) {
    return std::make_unique<data::CsvWriter>(std::move(to), schema, options);
  });
}

}  // namespace manta
