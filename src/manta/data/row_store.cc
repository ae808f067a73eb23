#include <arrow/api.h>
#include <arrow/buffer.h>
#include <arrow/extension_type.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>
#include <sys/mman.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/descriptor_stream_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/data/row_store_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kLargestFragment = 32 << 20;
constexpr int64_t kPage = 4096;
constexpr const char* kReadingRows = "reading rows of a temporary file";

/// A part of the file, mapped for as long as somebody holds it.
class MappedBuffer final : public arrow::Buffer {
 public:
  MappedBuffer(std::shared_ptr<const NewFile> file, const uint8_t* data, int64_t size)
      : arrow::Buffer(data, size), file_(std::move(file)) {}
  ~MappedBuffer() override { ::munmap(const_cast<uint8_t*>(data()), static_cast<size_t>(size())); }

 private:
  std::shared_ptr<const NewFile> file_;
};

// The same data under a type of the same layout: Arrow's reader gives extension types that the
// program has not registered as what they are stored as.
std::shared_ptr<arrow::ArrayData> retyped(const std::shared_ptr<arrow::ArrayData>& data,
                                          const std::shared_ptr<arrow::DataType>& type) {
  if (data->type->Equals(*type)) return data;
  auto result = data->Copy();
  result->type = type;
  const arrow::DataType* storage = type.get();
  while (storage->id() == arrow::Type::EXTENSION) {
    storage = static_cast<const arrow::ExtensionType*>(storage)->storage_type().get();
  }
  for (size_t i = 0; i < result->child_data.size(); ++i) {
    result->child_data[i] =
        retyped(result->child_data[i], storage->field(static_cast<int>(i))->type());
  }
  if (storage->id() == arrow::Type::DICTIONARY) {
    result->dictionary = retyped(result->dictionary,
                                 static_cast<const arrow::DictionaryType*>(storage)->value_type());
  }
  return result;
}

}  // namespace

void StoredRows::add_fragment(int64_t rows, int64_t bytes) {
  fragments_.push_back(rows);
  rows_ += rows;
  bytes_ += bytes;
}

/// As Arrow IPC in a file without a name, so that it goes away with the last who reads it, also if
/// the process is killed. A fragment is mapped while somebody holds its rows, and costs memory only
/// as the page cache does.
class RowStore::FileRows final : public StoredRows {
 public:
  FileRows(SchemaPtr schema, const std::string& folder) : file_(std::make_shared<NewFile>(folder)) {
    schema_ = std::move(schema);
  }

  void set_schema(SchemaPtr schema) { schema_ = std::move(schema); }
  int fd() const { return file_->fd(); }
  /// Where the next fragment may begin.
  int64_t end() const {
    return extents_.empty() ? 0 : extents_.back().offset + extents_.back().size;
  }
  void add(int64_t offset, int64_t size, int64_t rows) {
    extents_.push_back({offset, size});
    add_fragment(rows, size);
  }
  Batches read(size_t fragment, const std::vector<std::string>& columns) const override;

 private:
  struct Extent {
    int64_t offset = 0, size = 0;
  };
  const std::shared_ptr<const NewFile> file_;
  std::vector<Extent> extents_;
};

Batches RowStore::FileRows::read(size_t fragment, const std::vector<std::string>& columns) const {
  const Extent& extent = extents_[fragment];
  if (columns.empty()) {
    return {
        arrow::RecordBatch::Make(arrow::schema({}), fragments()[fragment], arrow::ArrayVector())};
  }
  void* mapped = ::mmap(nullptr, static_cast<size_t>(extent.size), PROT_READ, MAP_SHARED,
                        file_->fd(), extent.offset);
  if (mapped == MAP_FAILED) throw_errno("mapping rows of a temporary file");
  auto buffer =
      std::make_shared<MappedBuffer>(file_, static_cast<const uint8_t*>(mapped), extent.size);
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  for (const auto& name : columns) options.included_fields.push_back(schema_->GetFieldIndex(name));
  options.use_threads = false;
  auto reader = check(arrow::ipc::RecordBatchStreamReader::Open(
                          std::make_shared<arrow::io::BufferReader>(buffer), options),
                      kReadingRows);
  Batches batches;
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(reader->ReadNext(&batch), kReadingRows);
    if (!batch) return batches;
    Piece piece = to_piece(*batch);
    pick_columns(piece, columns, "rows of a temporary file");
    for (size_t i = 0; i < columns.size(); ++i) {
      auto type = schema_->GetFieldByName(columns[i])->type();
      piece.columns[i] = arrow::MakeArray(retyped(piece.columns[i]->data(), type));
    }
    batches.push_back(to_batch(std::move(piece)));
  }
}

RowStore::RowStore(SchemaPtr schema, std::string what, WorkCountPtr work,
                   std::optional<int64_t> expected_rows)
    : what_(std::move(what)),
      work_(std::move(work)),
      expected_rows_(expected_rows),
      folder_(temporary_folder()),
      stored_(std::make_shared<FileRows>(std::move(schema), folder_)) {}

RowStore::~RowStore() = default;

void RowStore::add(const std::shared_ptr<arrow::RecordBatch>& batch) {
  if (!begun_) stored_->set_schema(batch->schema());
  begun_ = true;
  count_work(work_);
  int64_t rows = batch->num_rows();
  for (int64_t first = 0; first < rows;) {
    int64_t end = std::min(rows, first + kPieceRows - waiting_rows_);
    int64_t bytes = bytes_of_rows(*batch, first, end);
    if (waiting_bytes_ + bytes > kLargestFragment) {
      // One row always fits. Else the last end for which there is room.
      int64_t low = first + (waiting_rows_ == 0 ? 1 : 0), high = end;
      while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (waiting_bytes_ + bytes_of_rows(*batch, first, middle) > kLargestFragment) {
          high = middle - 1;
        } else {
          low = middle;
        }
      }
      end = low;
      bytes = bytes_of_rows(*batch, first, end);
    }
    bool full = end < rows || waiting_rows_ + end - first == kPieceRows;
    if (end > first) waiting_.push_back(batch->Slice(first, end - first));
    waiting_rows_ += end - first;
    waiting_bytes_ += bytes;
    first = end;
    if (!full) continue;
    flush();
    if (!most_block_bytes_) close_fragment();
  }
}

void RowStore::end_fragment() {
  flush();
  close_fragment();
}

void RowStore::flush() {
  if (waiting_rows_ == 0) return;
  auto batch = concatenate(waiting_);
  waiting_.clear();
  waiting_rows_ = waiting_bytes_ = 0;
  write(*batch);
}

struct RowStore::OpenFragment {
  OpenFragment(int fd, int64_t offset, const std::string& folder)
      : out(fd, offset, folder), at(offset) {}
  DescriptorStream out;
  int64_t at;
  int64_t rows = 0;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer;
};

void RowStore::write(const arrow::RecordBatch& batch) {
  if (!open_) {
    open_ = std::make_unique<OpenFragment>(stored_->fd(),
                                           (stored_->end() + kPage - 1) / kPage * kPage, folder_);
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.alignment = 64;
    options.use_threads = false;
    options.unify_dictionaries = false;
    open_->writer = written(arrow::ipc::MakeStreamWriter(&open_->out, batch.schema(), options));
  }
  written(open_->writer->WriteRecordBatch(batch));
  open_->rows += batch.num_rows();
  int64_t bytes = open_->out.at() - open_->at;
  if (!most_block_bytes_ || bytes <= *most_block_bytes_) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(what_, ": a block would have more than ", *most_block_bytes_, " bytes (",
                  open_->rows, " rows of it have ", bytes,
                  "), and whoever reads blocks holds several at a time; make more blocks"));
}

void RowStore::close_fragment() {
  if (!open_) return;
  written(open_->writer->Close());
  int64_t size = open_->out.at() - open_->at;
  stored_->add(open_->at, size, open_->rows);
  open_ = nullptr;
}

void RowStore::written(const arrow::Status& status) const {
  if (status.ok()) return;
  int64_t bytes = open_ ? open_->out.at() : stored_->end();
  int64_t rows = stored_->rows() + (open_ ? open_->rows : 0);
  std::string all;
  if (expected_rows_ && rows > 0) {
    double needed = static_cast<double>(bytes) / static_cast<double>(rows) *
                    static_cast<double>(std::max(*expected_rows_, rows));
    all = str("; all ", *expected_rows_, " rows need about ", static_cast<int64_t>(needed));
  }
  throw Error(ErrorKind::kIo,
              str("writing ", what_, " to a temporary file in '", folder_, "': ", status.message(),
                  "; ", rows, " rows took ", bytes, " bytes", all, kMoreRoom));
}

std::shared_ptr<const StoredRows> RowStore::finish() {
  if (used_) return used_;
  end_fragment();
  return stored_;
}

void RowStore::use(std::shared_ptr<const StoredRows> rows) {
  MANTA_CHECK(!begun_, "rows in two places");
  used_ = std::move(rows);
}

bool is_cut_by_rows_only(int64_t most_bytes_of_row) {
  return most_bytes_of_row <= kLargestFragment / kPieceRows;
}

}  // namespace manta::data
