#include <arrow/io/file.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "manta/base/error_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::data {
namespace {

namespace fs = std::filesystem;

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISDIR(mode)) return "a folder";
  return "no regular file";
}

void require_regular(const FileKind& kind, const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(kind.reader, ": '", path, "' is ", kind_of(info.st_mode),
                  "; only files can be read: copy its content to one"));
}

// For messages: a folder that has been removed has no path.
std::string current_folder() {
  std::error_code error;
  std::string path = fs::current_path(error).string();
  return error ? "a folder that does not exist any more" : "'" + path + "'";
}

std::string absolute(const FileKind& kind, const std::string& path) {
  std::error_code error;
  std::string result = fs::absolute(path, error).string();
  if (!error) return result;
  throw Error(ErrorKind::kIo, str(kind.reader, ": finding '", path, "' from ", current_folder(),
                                  ": ", error.message(), "; give an absolute path"));
}

[[noreturn]] void throw_cannot_open(const FileKind& kind, const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    throw Error(ErrorKind::kNotFound,
                str(kind.reader, ": '", path, "' does not exist (looked for it from ",
                    current_folder(), ")"));
  }
  throw Error(ErrorKind::kIo, str(kind.reader, ": opening '", path, "': ", errno_text(error)));
}

// "s3" of "s3://bucket/file".
std::string scheme_of(const std::string& path) {
  size_t end = path.find("://");
  if (end == std::string::npos || end == 0) return {};
  bool plain = std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end),
                           [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-'; });
  return plain ? path.substr(0, end) : std::string();
}

void add_folder(const FileKind& kind, const std::string& folder, std::vector<std::string>& files) {
  std::vector<std::string> found;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::end(at); ++at) {
    const auto& entry = *at;
    std::string name = entry.path().filename();
    bool hidden = name.starts_with(".") || name.starts_with("_");
    if (hidden) at.disable_recursion_pending();  // _delta_log, _temporary, .ipynb_checkpoints
    if (hidden || entry.path().extension() != kind.extension || entry.is_directory()) continue;
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0) throw_cannot_open(kind, entry.path(), errno);
    require_regular(kind, entry.path(), info);
    found.push_back(absolute(kind, entry.path()));
  }
  if (found.empty()) {
    throw Error(ErrorKind::kNotFound, str(kind.reader, ": folder '", folder,
                                          "' holds no file whose name ends in ", kind.extension));
  }
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

void add_existing(const FileKind& kind, const std::string& path, const struct stat& info,
                  std::vector<std::string>& files) {
  if (!S_ISDIR(info.st_mode)) {
    require_regular(kind, path, info);
    files.push_back(absolute(kind, path));
    return;
  }
  try {
    add_folder(kind, path, files);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::kIo, str(kind.reader, ": listing '", path, "': ", error.what()));
  }
}

void add_matches(const FileKind& kind, const std::string& pattern,
                 std::vector<std::string>& files) {
  glob_t found{};
  // Sorted below: glob would sort by the user's language.
  int result = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  int error = errno;
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOMATCH) {
    throw Error(ErrorKind::kNotFound, str(kind.reader, ": no file matches the pattern '", pattern,
                                          "' (looked from ", current_folder(), ")"));
  }
  if (result != 0) {
    throw Error(ErrorKind::kIo, str(kind.reader, ": looking for files that match '", pattern,
                                    "': ", errno_text(result == GLOB_NOSPACE ? ENOMEM : error)));
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) throw_cannot_open(kind, path, errno);
    add_existing(kind, path, info, files);
  }
}

}  // namespace

std::vector<std::string> find_files(const FileKind& kind, const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const auto& path : paths) {
    if (auto scheme = scheme_of(path); !scheme.empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(kind.reader, ": '", path, "' is an address of ", scheme,
                      "://; only local files are read today: give the path of a file, a folder or "
                      "a mounted store"));
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) {
      add_existing(kind, path, info, files);
    } else if (errno == ENOENT && path.find_first_of("*?[") != std::string::npos) {
      add_matches(kind, path, files);
    } else {
      throw_cannot_open(kind, path, errno);
    }
  }
  return files;
}

DataFile open_data_file(const FileKind& kind, const std::string& path) {
  // Asked before and after: opening a device can do something, and the file can change between.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_cannot_open(kind, path, errno);
  require_regular(kind, path, info);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw_cannot_open(kind, path, errno);
  if (::fstat(fd.get(), &info) != 0) throw_cannot_open(kind, path, errno);
  require_regular(kind, path, info);
  std::string doing = str(kind.reader, ": opening '", path, "'");
  DataFile result;
  result.file = check(arrow::io::ReadableFile::Open(fd.get()), doing);
  fd.release();
  result.stamp = {
      info.st_dev, info.st_ino, info.st_size,
      std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec)};
  return result;
}

}  // namespace manta::data
