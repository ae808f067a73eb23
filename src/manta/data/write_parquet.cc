#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/write_files_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

// This many rows are decoded together; a shuffle's window has at least as many.
constexpr int64_t kRowGroupRows = 128 << 10;

parquet::Compression::type compression_named(const std::string& name) {
  if (name == "snappy") return parquet::Compression::SNAPPY;
  if (name == "zstd") return parquet::Compression::ZSTD;
  if (name == "none") return parquet::Compression::UNCOMPRESSED;
  throw Error(ErrorKind::kInvalidArgument, str("write_parquet: there is no compression '", name,
                                               "'; there are \"snappy\", \"zstd\" and \"none\""));
}

class ParquetWriter final : public FileWriter {
 public:
  ParquetWriter(const std::shared_ptr<arrow::io::OutputStream>& to,
                const std::shared_ptr<arrow::Schema>& schema,
                parquet::Compression::type compression) {
    auto properties = parquet::WriterProperties::Builder()
                          .compression(compression)
                          ->max_row_group_length(kRowGroupRows)
                          ->build();
    auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    writing([&] {
      return parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), to, properties,
                                              arrow_properties)
          .Value(&writer_);
    });
  }
  void write(const std::shared_ptr<arrow::RecordBatch>& batch) override {
    writing([&] { return writer_->WriteRecordBatch(*batch); });
  }
  void finish() override {
    writing([&] { return writer_->Close(); });
  }

 private:
  template <class Call>
  static void writing(Call call) {
    try {
      check(call(), "as Parquet");
    } catch (const parquet::ParquetStatusException& error) {
      check(error.status(), "as Parquet");
    } catch (const parquet::ParquetException& error) {
      throw Error(ErrorKind::kIo, str("as Parquet: ", error.what()));
    }
  }

  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace
}  // namespace data

int64_t Dataset::write_parquet(const std::string& folder,
                               const WriteParquetOptions& options) const {
  auto compression = data::compression_named(options.compression);
  data::FilesToWrite files{folder, "write_parquet", ".parquet", options.rows_per_file,
                           options.overwrite};
  return data::write_files(*this, files, [&](auto to, const auto& schema) {
    return std::make_unique<data::ParquetWriter>(to, schema, compression);
  });
}

}  // namespace manta
