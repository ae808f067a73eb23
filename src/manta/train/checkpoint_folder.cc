#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/checkpoint.h"
#include "manta/train/file_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestWrite = 8 << 20;

}  // namespace

void check_file_name(const std::string& name) {
  std::string what = "the name of a file of a checkpoint";
  if (name == "manifest.json")
    throw Error(ErrorKind::kInvalidArgument,
                str("'", name, "' cannot be ", what, ": it is the name of the list of files"));
  train::check_relative_path(name, what);
}

// Removed again unless it is finished.
class CheckpointFolder::Output {
 public:
  Output(CheckpointFolder& folder, const std::string& name) : folder_(folder), name_(name) {
    check_file_name(name);
    for (const CheckpointFile& file : folder.files_) {
      if (file.name == name)
        throw Error(ErrorKind::kInvalidArgument,
                    str("the checkpoint has two files with the name '", name, "'"));
    }
    path_ = folder.path_ + "/" + name;
    train::make_folders(fs::path(path_).parent_path());
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT)
      train::throw_file_errno(str("replacing '", path_, "'"));
    fd_ = train::open_file(folder.path_, name, O_WRONLY | O_CREAT | O_EXCL);
  }

  ~Output() {
    if (fd_) ::unlink(path_.c_str());
  }

  void write(const void* data, size_t size) {
    // Computes the checksum of each part just before the kernel copies it, so that it is read from
    // memory only once.
    for (auto at = static_cast<const char*>(data); size > 0;) {
      size_t part = std::min(size, kLargestWrite);
      checksum_.add(at, part);
      train::write_all(fd_.get(), at, part, path_);
      at += part;
      size -= part;
      size_ += part;
      if (folder_.on_written_) folder_.on_written_();
    }
  }

  void finish() {
    // Some file systems report a full disk only here.
    if (::close(fd_.release()) != 0) {
      int error = errno;
      ::unlink(path_.c_str());
      errno = error;
      train::throw_file_errno(str("closing '", path_, "'"));
    }
    folder_.files_.push_back({name_, size_, checksum_.hex()});
  }

 private:
  CheckpointFolder& folder_;
  std::string name_;
  std::string path_;
  UniqueFd fd_;
  Checksum checksum_;
  uint64_t size_ = 0;
};

CheckpointFolder::CheckpointFolder(std::string path, std::function<void()> on_written)
    : path_(std::move(path)), on_written_(std::move(on_written)) {
  train::make_folders(path_);
}

void CheckpointFolder::write(const std::string& name, const std::vector<Bytes>& parts) {
  Output output(*this, name);
  for (const Bytes& part : parts) output.write(part.data, part.size);
  output.finish();
}

void CheckpointFolder::write(const std::string& name, const std::string& text) {
  write(name, {{text.data(), text.size()}});
}

void CheckpointFolder::copy(const std::string& name, const std::string& from) {
  UniqueFd source(::open(from.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!source && errno == ENOENT)
    throw Error(ErrorKind::kNotFound, str("'", from, "', to be copied into the checkpoint as '",
                                          name, "', does not exist"));
  if (!source) train::throw_file_errno(str("opening '", from, "'"));
  train::check_regular(source.get(), from);
  Output output(*this, name);
  auto buffer = std::make_unique<char[]>(kLargestWrite);
  for (;;) {
    ssize_t got = ::read(source.get(), buffer.get(), kLargestWrite);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) train::throw_file_errno(str("reading '", from, "'"));
    if (got == 0) break;
    output.write(buffer.get(), static_cast<size_t>(got));
  }
  output.finish();
}

}  // namespace manta
