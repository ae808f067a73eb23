#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/io_util.h>
#include <arrow/util/key_value_metadata.h>
#include <arrow/util/value_parsing.h>
#include <unistd.h>

#include <mutex>
#include <random>

#include "manta/io/arrow_status_internal.h"
#include "manta/io/remote_files_internal.h"
#include "manta/io/remote_store_internal.h"

namespace manta {
namespace {

using arrow::fs::FileType;

std::chrono::nanoseconds time_of(const arrow::fs::FileInfo& info) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(info.mtime().time_since_epoch());
}

RemoteFileInfo info_of(const RemoteAddress& address, const arrow::fs::FileInfo& info) {
  return {address, info.size(), time_of(info)};
}

/// Marks failures as ones that a retry may help, and does not take the end of a connection for the
/// end of a file.
class RetriableFile final : public arrow::io::RandomAccessFile {
 public:
  RetriableFile(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t size)
      : file_(std::move(file)), size_(size) {}
  ~RetriableFile() override { static_cast<void>(Close()); }

  arrow::Status Close() override { return file_->Close(); }
  bool closed() const override { return file_->closed(); }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return size_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(int64_t read, ReadAt(position_, bytes, out));
    position_ += read;
    return read;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, bytes));
    position_ += buffer->size();
    return buffer;
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override {
    auto read = file_->ReadAt(position, bytes, out);
    if (!read.ok()) return retriable(read.status());
    if (*read < std::min(bytes, size_ - position)) return cut_off();
    return read;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override {
    auto buffer = file_->ReadAt(position, bytes);
    if (!buffer.ok()) return retriable(buffer.status());
    if ((*buffer)->size() < std::min(bytes, size_ - position)) return cut_off();
    return buffer;
  }

 private:
  static arrow::Status retriable(const arrow::Status& status) {
    if (status.detail() || !status.IsIOError()) return status;
    return status.WithDetail(arrow::internal::StatusDetailFromErrno(EIO));
  }
  static arrow::Status cut_off() {
    return retriable(arrow::Status::IOError("the connection ended before all bytes were read"));
  }

  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
  const int64_t size_;
  int64_t position_ = 0;
};

constexpr const char* kHiddenBegin = ".manta-";
constexpr const char* kHiddenEnd = ".tmp";

// Whether it is a file that is not published yet, or never will be.
bool is_hidden(const std::string& path) {
  std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return name.starts_with(kHiddenBegin) && name.ends_with(kHiddenEnd);
}

// The destructor of an open S3 stream closes it, which publishes the file. So a stream whose upload
// could not be aborted is never destroyed.
void keep_for_ever(std::shared_ptr<arrow::io::OutputStream> stream) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<arrow::io::OutputStream>>;
  std::lock_guard lock(mutex);
  kept->push_back(std::move(stream));
}

// The time in the headers of an open S3 file.
std::chrono::nanoseconds last_modified(const arrow::KeyValueMetadata& headers) {
  auto text = headers.Get("Last-Modified");
  int64_t seconds = 0;
  if (!text.ok() || !arrow::internal::ParseTimestampISO8601(text->data(), text->size(),
                                                            arrow::TimeUnit::SECOND, &seconds)) {
    return std::chrono::nanoseconds(0);
  }
  return std::chrono::seconds(seconds);
}

bool same_content(const OpenRemoteFile& a, const OpenRemoteFile& b) {
  return a.size == b.size && a.modified == b.modified && a.tag == b.tag;
}

}  // namespace

RemoteEntry look_at(const RemoteAddress& address) {
  RemoteStore store = store_of(address);
  std::string doing = str("looking for '", address.text(), "'");
  auto info = store.files->GetFileInfo(store.path_of(address));
  if (!info.ok()) throw remote_error(info.status(), doing);
  if (info->type() == FileType::NotFound) return {};
  if (info->type() == FileType::Directory) return {RemoteEntry::kFolder, {}};
  return {RemoteEntry::kFile, info_of(address, *info)};
}

std::vector<RemoteFileInfo> list_files_below(const RemoteAddress& folder) {
  RemoteStore store = store_of(folder);
  arrow::fs::FileSelector selector;
  selector.base_dir = store.path_of(folder);
  selector.recursive = true;
  selector.allow_not_found = true;
  auto infos = store.files->GetFileInfo(selector);
  if (!infos.ok()) throw remote_error(infos.status(), str("listing '", folder.text(), "'"));
  std::vector<RemoteFileInfo> files;
  for (const auto& info : *infos) {
    if (info.type() != FileType::File || is_hidden(info.path())) continue;
    files.push_back(info_of(folder.with_path(store.relative(info.path())), info));
  }
  return files;
}

OpenRemoteFile open_remote(const RemoteAddress& address) {
  RemoteStore store = store_of(address);
  std::string doing = str("opening '", address.text(), "'");
  auto require = [&](const arrow::Status& status) {
    if (!status.ok()) throw remote_error(status, doing);
  };
  OpenRemoteFile result;
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  if (store.is_s3) {
    // One request gives both; a listing would not give the tag.
    require(store.files->OpenInputFile(store.path_of(address)).Value(&file));
    require(file->GetSize().Value(&result.size));
    std::shared_ptr<const arrow::KeyValueMetadata> headers;
    require(file->ReadMetadata().Value(&headers));
    if (headers) {
      result.modified = last_modified(*headers);
      result.tag = headers->Get("ETag").ValueOr("");
    }
  } else {
    arrow::fs::FileInfo info;
    require(store.files->GetFileInfo(store.path_of(address)).Value(&info));
    if (info.type() != FileType::File) {
      throw Error(ErrorKind::kNotFound, str(doing, ": there is no such file"));
    }
    require(store.files->OpenInputFile(info).Value(&file));
    result.size = info.size();
    result.modified = time_of(info);
  }
  result.file = std::make_shared<RetriableFile>(std::move(file), result.size);
  return result;
}

void remove_remote(const RemoteAddress& address) {
  RemoteStore store = store_of(address);
  auto status = store.files->DeleteFile(store.path_of(address));
  if (status.ok()) return;
  Error error = remote_error(status, str("removing '", address.text(), "'"));
  if (error.kind() != ErrorKind::kNotFound) throw error;
}

void remove_remote_folder(const RemoteAddress& folder) {
  if (look_at(folder).kind != RemoteEntry::kFolder) return;
  RemoteStore store = store_of(folder);
  auto status = store.files->DeleteDir(store.path_of(folder));
  if (status.ok()) return;
  Error error = remote_error(status, str("removing '", folder.text(), "'"));
  if (error.kind() != ErrorKind::kNotFound) throw error;
}

std::string read_remote(const RemoteAddress& address, size_t most) {
  // Opening a file asks for its size, and reading it is another request. If the file was replaced
  // in between, the bytes are those of the new file, cut off at the size of the old one.
  constexpr int kTries = 10;
  std::string doing = str("reading '", address.text(), "'");
  OpenRemoteFile opened = open_remote(address);
  for (int tries = 0; tries < kTries; ++tries) {
    if (static_cast<size_t>(opened.size) > most) {
      throw Error(ErrorKind::kCorrupt, str("'", address.text(), "' has ", opened.size,
                                           " bytes; at most ", most, " are read"));
    }
    auto bytes = opened.file->ReadAt(0, opened.size);
    OpenRemoteFile after = open_remote(address);
    if (same_content(opened, after)) {
      if (!bytes.ok()) throw remote_error(bytes.status(), doing);
      return (*bytes)->ToString();
    }
    opened = std::move(after);
  }
  throw Error(ErrorKind::kIo, str(doing, ": it was replaced ", kTries, " times meanwhile"));
}

void write_remote(const RemoteAddress& address, std::string_view text) {
  NewRemoteFile file(address);
  auto status = file.stream()->Write(text.data(), static_cast<int64_t>(text.size()));
  if (!status.ok()) throw remote_error(status, str("writing '", address.text(), "'"));
  file.publish();
}

NewRemoteFile::NewRemoteFile(const RemoteAddress& address) : address_(address) {
  RemoteStore store = store_of(address);
  std::string doing = str("making '", address.text(), "'");
  std::string path = store.path_of(address);
  if (!store.is_s3) {
    size_t name = path.rfind('/') + 1;
    std::random_device random;
    hidden_ = str(path.substr(0, name), kHiddenBegin, ::getpid(), "-", random(), kHiddenEnd);
    auto made = name > 1 ? store.files->CreateDir(path.substr(0, name - 1)) : arrow::Status::OK();
    if (!made.ok()) throw remote_error(made, doing);
  }
  auto stream = store.files->OpenOutputStream(hidden_.empty() ? path : hidden_);
  if (!stream.ok()) throw remote_error(stream.status(), doing);
  stream_ = *stream;
}

NewRemoteFile::~NewRemoteFile() {
  if (!stream_) return;
  if (!stream_->Abort().ok()) keep_for_ever(std::move(stream_));
  if (!hidden_.empty()) static_cast<void>(store_of(address_).files->DeleteFile(hidden_));
}

void NewRemoteFile::publish() {
  std::string doing = str("writing '", address_.text(), "'");
  if (auto status = stream_->Close(); !status.ok()) throw remote_error(status, doing);
  if (!hidden_.empty()) {
    RemoteStore store = store_of(address_);
    auto status = store.files->Move(hidden_, store.path_of(address_));
    if (!status.ok()) throw remote_error(status, doing);
  }
  stream_.reset();
}

}  // namespace manta
