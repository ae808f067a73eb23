#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/descriptor_stream_internal.h"
#include "manta/data/output_folder_internal.h"
#include "manta/io/new_file_internal.h"
#include "manta/io/remote_files_internal.h"

namespace manta::data {
namespace {

namespace fs = std::filesystem;

class LocalOutputFile final : public OutputFile {
 public:
  LocalOutputFile(const std::string& folder, std::string name)
      : folder_(folder),
        name_(std::move(name)),
        file_(folder),
        stream_(std::make_shared<DescriptorStream>(file_.fd(), 0, folder)) {}
  const std::shared_ptr<arrow::io::OutputStream>& stream() const override { return stream_; }
  void publish(bool on_disk) override {
    if (on_disk && ::fsync(file_.fd()) != 0) throw_errno(str("writing to '", folder_, "'"));
    file_.publish(name_);
  }

 private:
  const std::string folder_;
  const std::string name_;
  NewFile file_;
  const std::shared_ptr<arrow::io::OutputStream> stream_;
};

class LocalOutputFolder final : public OutputFolder {
 public:
  explicit LocalOutputFolder(std::string path) : path_(std::move(path)) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) {
      throw Error(ErrorKind::kIo, str("making the folder '", path_, "': ", error.message()));
    }
  }
  std::vector<std::string> existing(const char* extensions) const override {
    std::vector<std::string> files;
    try {
      for_files_below(path_, extensions, [&](const fs::path& file) {
        files.push_back(file.lexically_relative(path_));
      });
    } catch (const fs::filesystem_error& error) {
      throw Error(ErrorKind::kIo, str("listing '", path_, "': ", error.what()));
    }
    return files;
  }
  std::unique_ptr<OutputFile> create(const std::string& name) override {
    return std::make_unique<LocalOutputFile>(path_, name);
  }
  void remove(const std::string& name) override {
    std::error_code error;
    fs::remove(path_ + "/" + name, error);
    if (error) throw Error(ErrorKind::kIo, error.message());
  }

 private:
  const std::string path_;
};

class RemoteOutputFile final : public OutputFile {
 public:
  explicit RemoteOutputFile(const RemoteAddress& address) : file_(address) {}
  const std::shared_ptr<arrow::io::OutputStream>& stream() const override { return file_.stream(); }
  void publish(bool) override { file_.publish(); }

 private:
  NewRemoteFile file_;
};

class RemoteOutputFolder final : public OutputFolder {
 public:
  explicit RemoteOutputFolder(RemoteAddress address) : address_(std::move(address)) {}
  std::vector<std::string> existing(const char* extensions) const override {
    std::vector<std::string> files;
    for (const auto& info : list_files_below(address_)) {
      std::string below = info.address.path.substr(
          address_.path.empty() ? 0 : std::min(address_.path.size() + 1, info.address.path.size()));
      fs::path parts(below);
      bool hidden = std::any_of(parts.begin(), parts.end(), [](const auto& part) {
        return part.string().starts_with(".") || part.string().starts_with("_");
      });
      if (!hidden && has_extension(extensions, parts.filename())) files.push_back(below);
    }
    return files;
  }
  std::unique_ptr<OutputFile> create(const std::string& name) override {
    return std::make_unique<RemoteOutputFile>(address_.child(name));
  }
  void remove(const std::string& name) override { remove_remote(address_.child(name)); }

 private:
  const RemoteAddress address_;
};

}  // namespace

std::unique_ptr<OutputFolder> open_output_folder(const std::string& path) {
  if (auto address = remote_address(path)) return std::make_unique<RemoteOutputFolder>(*address);
  return std::make_unique<LocalOutputFolder>(path);
}

}  // namespace manta::data
