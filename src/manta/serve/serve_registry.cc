#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/serve/serve_registry_internal.h"

namespace manta::serve {
namespace {

constexpr const char* kTokenFile = "/serve.token";

std::string read_small_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  char bytes[4096];
  ssize_t size = file ? ::read(file.get(), bytes, sizeof(bytes)) : -1;
  return size > 0 ? std::string(bytes, static_cast<size_t>(size)) : "";
}

// The file appears whole: readers see it with its content or not at all.
void write_small_file(const std::string& path, const std::string& text) {
  std::string partial = path + ".partial";
  ::unlink(partial.c_str());
  UniqueFd file(
      ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::rename(partial.c_str(), path.c_str()) != 0) {
    throw_errno(str("writing '", path, "'"));
  }
}

}  // namespace

ServeRegistry::ServeRegistry(const std::string& name) : name_(name) {
  bool clean = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-';
  });
  if (name.empty() || name.size() > 100 || !clean) {
    throw Error(ErrorKind::kInvalidArgument,
                str("StartOptions::name must be 1 to 100 letters, digits, '_' and '-' (was \"",
                    name, "\")"));
  }
  folder_ = str(std::filesystem::temp_directory_path().string(), "/manta-serve-", ::getuid());
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno(str("making the folder '", folder_, "'"));
  struct stat info {};
  if (::lstat(folder_.c_str(), &info) != 0) throw_errno(str("looking at '", folder_, "'"));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::getuid() || (info.st_mode & 077) != 0) {
    throw Error(ErrorKind::kIo,
                str("'", folder_,
                    "' must be a folder of yours that only you may enter "
                    "(mode 0700); remove what is there, or set TMPDIR to another folder"));
  }
}

std::string ServeRegistry::log_path() const { return str(folder_, "/", name_, ".log"); }

std::optional<FrontAddress> ServeRegistry::find() const {
  std::string run_folder = read_small_file(str(folder_, "/", name_));
  if (run_folder.empty()) return std::nullopt;
  FrontAddress address{run_folder + "/serve-control.sock",
                       read_small_file(run_folder + kTokenFile)};
  if (address.token.empty()) return std::nullopt;
  return address;
}

std::optional<ServeRegistry::Entry> ServeRegistry::claim() const {
  std::string path = str(folder_, "/", name_, ".lock");
  while (true) {
    UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) throw_errno(str("opening '", path, "'"));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
    // The process that had the lock may have removed the file between the two calls.
    struct stat mine {
    }, there{};
    if (::fstat(lock.get(), &mine) == 0 && ::stat(path.c_str(), &there) == 0 &&
        mine.st_ino == there.st_ino) {
      return Entry(std::move(lock), path, str(folder_, "/", name_));
    }
  }
}

ServeRegistry::Entry::Entry(UniqueFd lock, std::string lock_path, std::string file_path)
    : lock_(std::move(lock)), lock_path_(std::move(lock_path)), file_path_(std::move(file_path)) {}

ServeRegistry::Entry::~Entry() {
  if (!lock_) return;
  ::unlink(file_path_.c_str());
  ::unlink((file_path_ + ".log").c_str());
  ::unlink(lock_path_.c_str());
  ::rmdir(std::filesystem::path(file_path_).parent_path().c_str());  // if this was the last file
}

void ServeRegistry::Entry::publish(const FrontAddress& address) const {
  std::string run_folder = std::filesystem::path(address.socket_path).parent_path();
  write_small_file(run_folder + kTokenFile, address.token);
  write_small_file(file_path_, run_folder);
}

}  // namespace manta::serve
