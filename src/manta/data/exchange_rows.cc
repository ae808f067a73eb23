#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include "manta/base/error_internal.h"
#include "manta/data/exchange_rows_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

template <class Value>
Value checked_peer(arrow::Result<Value> result, const char* what) {
  if (!result.ok()) {
    throw Error(ErrorKind::kCorrupt, str("a data reader of another node sent ", what,
                                         " that cannot be read: ", result.status().ToString()));
  }
  return std::move(result).ValueOrDie();
}

}  // namespace

std::string rows_to_bytes(const Batches& batches) {
  const std::string doing = "writing rows for another node";
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  auto batch = batches.size() == 1 ? batches.front() : concatenate(batches);
  int64_t size = 0;
  check(arrow::ipc::GetRecordBatchSize(*batch, options, &size), doing);
  std::string bytes(static_cast<size_t>(size), '\0');
  arrow::io::FixedSizeBufferWriter writer(std::make_shared<arrow::MutableBuffer>(
      reinterpret_cast<uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size())));
  int32_t metadata_length = 0;
  int64_t body_length = 0;
  check(arrow::ipc::WriteRecordBatch(*batch, 0, &writer, &metadata_length, &body_length, options),
        doing);
  return bytes;
}

std::shared_ptr<arrow::RecordBatch> rows_from_bytes(const std::shared_ptr<arrow::Schema>& schema,
                                                    std::string bytes) {
  arrow::io::BufferReader reader(arrow::Buffer::FromString(std::move(bytes)));
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  arrow::ipc::DictionaryMemo memo;
  auto batch = checked_peer(arrow::ipc::ReadRecordBatch(schema, &memo, options, &reader), "rows");
  auto valid = batch->ValidateFull();
  if (!valid.ok()) {
    throw Error(ErrorKind::kCorrupt,
                "a data reader of another node sent rows that are damaged: " + valid.ToString());
  }
  return batch;
}

std::string schema_to_bytes(const arrow::Schema& schema) {
  return check(arrow::ipc::SerializeSchema(schema), "serialising a schema")->ToString();
}

std::shared_ptr<arrow::Schema> schema_from_bytes(std::string bytes) {
  arrow::io::BufferReader reader(arrow::Buffer::FromString(std::move(bytes)));
  arrow::ipc::DictionaryMemo memo;
  return checked_peer(arrow::ipc::ReadSchema(&reader, &memo), "a schema");
}

}  // namespace manta::data
