#include <arrow/api.h>
#include <arrow/c/bridge.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/processors_internal.h"
#include "manta/data/sources.h"
#include "manta/data/stream_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

/// A pass over a data set, as another library takes it.
class PassReader final : public arrow::RecordBatchReader {
 public:
  PassReader(const Dataset& dataset, std::shared_ptr<arrow::Schema> schema)
      : schema_(std::move(schema)),
        stream_(std::in_place, dataset.plan(), StreamStart{},
                StreamOptions{.threads = all_processors(), .progress = "to_arrow_stream"}) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    *batch = nullptr;
    if (!stream_) return arrow::Status::OK();
    try {
      if (auto block = stream_->next()) *batch = std::move(block->batch);
      return arrow::Status::OK();
    } catch (const std::exception& error) {
      return arrow::Status::UnknownError(error.what());
    }
  }
  arrow::Status Close() override {
    stream_.reset();
    return arrow::Status::OK();
  }

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  std::optional<Stream> stream_;
};

}  // namespace

Dataset from_arrow_stream(ArrowArrayStream* stream) {
  if (!stream || !stream->release) {
    throw Error(ErrorKind::kInvalidArgument,
                "from_arrow_stream needs a stream that was not taken before");
  }
  auto reader = check(arrow::ImportRecordBatchReader(stream), "from_arrow_stream");
  return from_arrow(check(reader->ToTable(), "from_arrow_stream"));
}

}  // namespace data

void Dataset::to_arrow_stream(ArrowArrayStream* stream) const {
  if (!stream) throw Error(ErrorKind::kInvalidArgument, "to_arrow_stream needs a stream, not null");
  check(arrow::ExportRecordBatchReader(std::make_shared<data::PassReader>(*this, schema()), stream),
        "to_arrow_stream");
}

}  // namespace manta
