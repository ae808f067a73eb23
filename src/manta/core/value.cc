#include "manta/core/value.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/located_memory_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::internal {
namespace {

enum class Place : uint8_t { kNull, kInline, kShared };

// Shared pages as an Arrow buffer: keeps the mapping for as long as any column points into it.
class MappedBuffer : public arrow::Buffer {
 public:
  MappedBuffer(std::shared_ptr<SharedMemory> memory, uint64_t offset, uint64_t size)
      : arrow::Buffer(memory->data() + offset, static_cast<int64_t>(size)),
        memory_(std::move(memory)) {}

 private:
  std::shared_ptr<SharedMemory> memory_;
};

// Arrow writes straight into the region, without a buffer in between.
class RegionStream : public arrow::io::OutputStream {
 public:
  explicit RegionStream(SharedMemoryWriter& to) : to_(to), begin_(to.align()) {}
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return static_cast<int64_t>(to_.size() - begin_); }
  arrow::Status Write(const void* data, int64_t size) override {
    to_.write(data, static_cast<size_t>(size));
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;
  uint64_t begin() const { return begin_; }

 private:
  SharedMemoryWriter& to_;
  uint64_t begin_;
  bool closed_ = false;
};

// `write` writes IPC to the stream that it is given; `size` is roughly what that takes.
template <class Write>
void save_ipc(OutArchive& archive, int64_t size, const Write& write) {
  if (size > static_cast<int64_t>(kLargeBuffer)) {
    archive(Place::kShared);
    RegionStream stream(archive.large_buffers());
    check(write(&stream), "writing an Arrow table into shared memory");
    archive(stream.begin(), static_cast<uint64_t>(archive.large_buffers().size() - stream.begin()));
    return;
  }
  archive(Place::kInline);
  auto stream = check(arrow::io::BufferOutputStream::Create(), "making an Arrow stream");
  check(write(stream.get()), "serialising an Arrow table");
  auto buffer = check(stream->Finish(), "serialising an Arrow table");
  archive(static_cast<uint64_t>(buffer->size()));
  archive.write(buffer->data(), static_cast<size_t>(buffer->size()));
}

std::shared_ptr<arrow::Buffer> load_buffer(InArchive& archive) {
  Place place{};
  archive(place);
  if (place == Place::kNull) return nullptr;
  uint64_t offset = 0, size = 0;
  if (place == Place::kInline) {
    size = archive.read_length(1);
    auto buffer =
        check(arrow::AllocateBuffer(static_cast<int64_t>(size)), "allocating an Arrow buffer");
    archive.read(buffer->mutable_data(), size);
    return buffer;
  }
  archive(offset, size);
  if (!archive.large_buffers || offset > archive.large_buffers->size() ||
      size > archive.large_buffers->size() - offset) {
    throw Error(ErrorKind::kCorrupt, "a value names a range outside of its shared memory");
  }
  return std::make_shared<MappedBuffer>(archive.large_buffers, offset, size);
}

// `size` as it lies in memory may count a slice's whole parent; good enough to choose the place.
int64_t rough_size(const arrow::ArrayData& column) {
  int64_t size = 0;
  for (const auto& buffer : column.buffers) size += buffer ? buffer->size() : 0;
  if (!column.child_data.empty()) size += static_cast<int64_t>(kLargeBuffer) + 1;
  return size;
}

std::shared_ptr<arrow::ipc::RecordBatchStreamReader> open_ipc(
    std::shared_ptr<arrow::Buffer> buffer) {
  auto input = std::make_shared<arrow::io::BufferReader>(std::move(buffer));
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  return check(arrow::ipc::RecordBatchStreamReader::Open(input, options), "reading an Arrow table");
}

}  // namespace

void Value::save(OutArchive& archive) const {
  auto here = memory || !located ? memory : located->here();
  size_t size = here ? here->size() : located ? located->size() : 0;
  archive(inline_body, refs, body_offset, body_size, size);
  if (size == 0) return;
  if (archive.keys) {
    MANTA_CHECK(located, "memory that no node keeps is sent to another host");
    archive.keys->push_back(located->key());
  } else {
    MANTA_CHECK(here, "memory that is on another host is sent before it was fetched");
    archive.fds.push_back({here->fd(), here});
  }
}

void Value::load(InArchive& archive) {
  size_t memory_size = 0;
  archive(inline_body, refs, body_offset, body_size, memory_size);
  memory.reset();
  located.reset();
  if (memory_size > 0 && archive.next_key < archive.keys.size()) {
    const MemoryKey& key = archive.keys[archive.next_key++];
    if (key.size < memory_size || key.number == 0) {
      throw Error(ErrorKind::kCorrupt, str("a message names ", memory_size,
                                           " bytes of memory, its node keeps ", key.size));
    }
    located = std::make_shared<LocatedMemory>(key);
  } else if (memory_size > 0) {
    if (archive.next_fd >= archive.fds.size()) {
      throw Error(ErrorKind::kCorrupt, "a message names shared memory that did not come with it");
    }
    memory = SharedMemory::adopt(std::move(archive.fds[archive.next_fd++]), memory_size);
  }
  if (body_size > 0 && (body_offset > memory_size || body_size > memory_size - body_offset)) {
    throw Error(ErrorKind::kCorrupt, "a value names a range outside of its shared memory");
  }
}

Value finish_value(std::string body, OutArchive& archive) {
  Value value;
  value.refs = std::move(archive.refs);
  if (body.size() > kLargeBuffer) {
    value.body_size = body.size();
    value.body_offset = archive.large_buffers().append(body.data(), body.size());
  } else {
    value.inline_body = std::move(body);
  }
  if (archive.has_large_buffers()) value.memory = std::move(archive.large_buffers()).finish();
  return value;
}

void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const std::shared_ptr<arrow::Table>& table) {
  if (!table) return archive(Place::kNull), void();
  int64_t size = 0;
  for (const auto& column : table->columns()) {
    for (const auto& chunk : column->chunks()) {
      size += rough_size(*chunk->data());
    }
  }
  save_ipc(archive, size, [&](arrow::io::OutputStream* stream) -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeStreamWriter(stream, table->schema()));
    ARROW_RETURN_NOT_OK(writer->WriteTable(*table));
    return writer->Close();
  });
}

void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::shared_ptr<arrow::Table>& table) {
  auto buffer = load_buffer(archive);
  table =
      buffer ? check(open_ipc(std::move(buffer))->ToTable(), "reading an Arrow table") : nullptr;
}

void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive,
                               const std::shared_ptr<arrow::RecordBatch>& batch) {
  if (!batch) return archive(Place::kNull), void();
  int64_t size = 0;
  for (const auto& column : batch->columns()) size += rough_size(*column->data());
  save_ipc(archive, size, [&](arrow::io::OutputStream* stream) -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeStreamWriter(stream, batch->schema()));
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*batch));
    return writer->Close();
  });
}

void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::shared_ptr<arrow::RecordBatch>& batch) {
  batch.reset();
  auto buffer = load_buffer(archive);
  if (buffer) check(open_ipc(std::move(buffer))->ReadNext(&batch), "reading an Arrow record batch");
}

void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive, const std::shared_ptr<arrow::Buffer>& buffer) {
  if (!buffer) return archive(Place::kNull), void();
  auto size = static_cast<uint64_t>(buffer->size());
  if (size > kLargeBuffer) {
    archive(Place::kShared,
            static_cast<uint64_t>(archive.large_buffers().append(buffer->data(), size)), size);
  } else {
    archive(Place::kInline, size);
    archive.write(buffer->data(), size);
  }
}

void CEREAL_LOAD_FUNCTION_NAME(InArchive& archive, std::shared_ptr<arrow::Buffer>& buffer) {
  buffer = load_buffer(archive);
}

}  // namespace manta::internal
