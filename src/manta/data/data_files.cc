#include <arrow/io/file.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "manta/base/error_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/timed_file_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/io/remote_files_internal.h"
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

std::chrono::nanoseconds modified(const struct stat& info) {
  return std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec);
}

void add_sorted(std::vector<FoundFile> found, std::vector<FoundFile>& files) {
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  files.insert(files.end(), found.begin(), found.end());
}

void add_folder(const FileKind& kind, const std::string& folder, std::vector<FoundFile>& files) {
  std::vector<FoundFile> found;
  for_files_below(folder, kind.extensions, [&](const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) throw_cannot_open(kind, path, errno);
    require_regular(kind, path, info);
    found.push_back({absolute(kind, path), info.st_size, modified(info)});
  });
  if (found.empty()) {
    throw Error(ErrorKind::kNotFound,
                str(kind.reader, ": folder '", folder, "' holds no file",
                    *kind.extensions ? " whose name ends in " : "", kind.extensions));
  }
  add_sorted(std::move(found), files);
}

void add_existing(const FileKind& kind, const std::string& path, const struct stat& info,
                  std::vector<FoundFile>& files) {
  if (!S_ISDIR(info.st_mode)) {
    require_regular(kind, path, info);
    files.push_back({absolute(kind, path), info.st_size, modified(info)});
    return;
  }
  try {
    add_folder(kind, path, files);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::kIo, str(kind.reader, ": listing '", path, "': ", error.what()));
  }
}

void add_matches(const FileKind& kind, const std::string& pattern, std::vector<FoundFile>& files) {
  glob_t found{};
  // The names are sorted below: glob would sort by the user's language.
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

namespace {

template <class Call>
auto naming_reader(const FileKind& kind, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.kind(), str(kind.reader, ": ", error.what()));
  }
}

OpenRemoteFile open_remote_file(const FileKind& kind, const std::string& path) {
  return naming_reader(kind, [&] { return open_remote(*remote_address(path)); });
}

// Whether a file of a folder is read: by its name, and those of the folders between.
bool is_read(const FileKind& kind, const std::string& folder, const std::string& path) {
  std::string below = folder.empty() ? path : path.substr(std::min(folder.size() + 1, path.size()));
  for (const auto& name : fs::path(below)) {
    if (name.string().starts_with(".") || name.string().starts_with("_")) return false;
  }
  return has_extension(kind.extensions, fs::path(below).filename());
}

FoundFile found_remote(const RemoteFileInfo& info) {
  return {info.address.text(), info.size, info.modified};
}

// Files that match a pattern, and those in folders that match it.
std::vector<FoundFile> remote_matches(const FileKind& kind, const RemoteAddress& pattern) {
  size_t first = pattern.path.find_first_of("*[");
  size_t folder_end = pattern.path.rfind('/', first);
  RemoteAddress folder =
      pattern.with_path(folder_end == std::string::npos ? "" : pattern.path.substr(0, folder_end));
  auto depth = std::count(pattern.path.begin(), pattern.path.end(), '/');
  std::vector<FoundFile> found;
  for (const auto& info : list_files_below(folder)) {
    const std::string& path = info.address.path;
    size_t end = 0;
    for (int64_t i = 0; i <= depth && end != std::string::npos; ++i) {
      end = path.find('/', end + (i > 0 ? 1 : 0));
    }
    std::string as_deep = path.substr(0, end);
    if (::fnmatch(pattern.path.c_str(), as_deep.c_str(), FNM_PATHNAME | FNM_PERIOD) != 0) continue;
    if (as_deep == path || is_read(kind, as_deep, path)) found.push_back(found_remote(info));
  }
  return found;
}

void add_remote(const FileKind& kind, const RemoteAddress& address, std::vector<FoundFile>& files) {
  naming_reader(kind, [&] {
    RemoteEntry entry = look_at(address);
    if (entry.kind == RemoteEntry::kFile) {
      files.push_back(found_remote(entry.info));
      return;
    }
    std::vector<FoundFile> found;
    if (entry.kind == RemoteEntry::kFolder) {
      for (const auto& info : list_files_below(address)) {
        if (is_read(kind, address.path, info.address.path)) found.push_back(found_remote(info));
      }
      if (found.empty()) {
        throw Error(ErrorKind::kNotFound,
                    str("folder '", address.text(), "' holds no file",
                        *kind.extensions ? " whose name ends in " : "", kind.extensions));
      }
    } else {
      bool pattern = address.path.find_first_of("*[") != std::string::npos;
      if (pattern) found = remote_matches(kind, address);
      if (found.empty()) {
        throw Error(ErrorKind::kNotFound,
                    str(pattern ? "no file matches the pattern '" : "there is no file or folder '",
                        address.text(), "'"));
      }
    }
    add_sorted(std::move(found), files);
  });
}

}  // namespace

namespace {

/// Calls for the files below a folder.
class FolderWalk {
 public:
  FolderWalk(std::string_view extensions, const std::function<void(const fs::path&)>& take)
      : extensions_(extensions), take_(take) {}

  void walk(const fs::path& folder, bool by_link = false);

 private:
  using FolderId = std::pair<dev_t, ino_t>;

  const std::string_view extensions_;
  const std::function<void(const fs::path&)>& take_;
  std::vector<FolderId> inside_;  // the current folder and those that contain it
  int links_ = 0;                 // the number of links on the way to the current folder
  std::set<FolderId> linked_;     // folders that links have led to since the first link
};

void FolderWalk::walk(const fs::path& folder, bool by_link) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) {
    throw fs::filesystem_error("looking at it", folder,
                               std::error_code(errno, std::generic_category()));
  }
  FolderId id{info.st_dev, info.st_ino};
  if (std::find(inside_.begin(), inside_.end(), id) != inside_.end()) return;
  // Otherwise folders with links to each other would be read once for each path through them.
  if (by_link && links_ == 0) linked_.clear();
  if (by_link && !linked_.insert(id).second) return;
  inside_.push_back(id);
  links_ += by_link;
  // Sorted: which link is the first one to a folder must not depend on the host.
  std::vector<fs::directory_entry> entries(fs::directory_iterator(folder), {});
  std::sort(entries.begin(), entries.end());
  for (const auto& entry : entries) {
    std::string name = entry.path().filename();
    if (name.starts_with(".") || name.starts_with("_")) continue;  // _delta_log, .ipynb_checkpoints
    std::error_code error;  // of a dangling link: it does not matter if the link would not be read
    if (entry.is_directory(error)) {
      walk(entry.path(), entry.is_symlink(error));
    } else if (has_extension(extensions_, name)) {
      take_(entry.path());
    }
  }
  links_ -= by_link;
  inside_.pop_back();
}

}  // namespace

void for_files_below(const std::string& folder, std::string_view extensions,
                     const std::function<void(const fs::path&)>& take) {
  FolderWalk(extensions, take).walk(folder);
}

bool has_extension(std::string_view extensions, const std::string& name) {
  if (extensions.empty()) return true;
  std::string extension = fs::path(name).extension();
  if (extension.empty()) return false;
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (size_t at = 0; at < extensions.size();) {
    size_t end = std::min(extensions.find(' ', at), extensions.size());
    if (extensions.substr(at, end - at) == extension) return true;
    at = end + 1;
  }
  return false;
}

namespace {

// The path without the part before the folder, or before the varying part of a pattern.
std::string path_below(const std::string& named, const std::string& path, bool remote) {
  std::error_code error;
  size_t wild = remote || !fs::exists(named, error) ? named.find_first_of(remote ? "*[" : "*?[")
                                                    : std::string::npos;
  std::string root =
      wild == std::string::npos ? named : named.substr(0, named.rfind('/', wild) + 1);
  if (wild != std::string::npos && named.rfind('/', wild) == std::string::npos) root.clear();
  while (root.ends_with("/")) root.pop_back();
  if (root.empty() && !named.starts_with("/")) return path;
  if (path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/') {
    return path.substr(root.size() + 1);
  }
  return fs::path(path).filename();  // the file itself was named
}

void set_below(const std::string& named, FoundFile& file) {
  if (auto address = remote_address(file.path)) {
    file.below = path_below(remote_address(named)->path, address->path, true);
    return;
  }
  // Both begin as the user's path does.
  std::error_code error;
  std::string prefix = fs::current_path(error).string() + "/";
  bool relative = !named.starts_with("/");
  std::string path = file.path;
  if (relative && path.starts_with(prefix)) path = path.substr(prefix.size());
  file.below = path_below(named, path, false);
}

}  // namespace

std::vector<FoundFile> find_files(const FileKind& kind, const std::vector<std::string>& paths) {
  if (paths.empty()) {
    throw Error(ErrorKind::kInvalidArgument, str(kind.reader, ": no path was given"));
  }
  std::vector<FoundFile> files;
  for (const auto& path : paths) {
    size_t before = files.size();
    auto found_below = [&] {
      for (size_t i = before; i < files.size(); ++i) set_below(path, files[i]);
    };
    std::optional<RemoteAddress> address;
    naming_reader(kind, [&] { address = remote_address(path); });
    if (address) {
      if (address->scheme != "file") {
        add_remote(kind, *address, files);
        found_below();
        continue;
      }
      throw Error(
          ErrorKind::kInvalidArgument,
          str(kind.reader, ": '", path, "' is a local file; give its path, without file://"));
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) {
      add_existing(kind, path, info, files);
    } else if (errno == ENOENT && path.find_first_of("*?[") != std::string::npos) {
      add_matches(kind, path, files);
    } else {
      throw_cannot_open(kind, path, errno);
    }
    found_below();
  }
  return files;
}

bool is_remote(const std::string& path) {
  return path.find("://") != std::string::npos && path[0] != '/';
}

DataFile open_data_file(const FileKind& kind, const std::string& path) {
  if (is_remote(path)) {
    auto opened = open_remote_file(kind, path);
    return {timed_file(opened.file), {0, 0, opened.size, opened.modified, opened.tag}};
  }
  // Checked before and after opening: opening a device can have effects, and the file can change in
  // between.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_cannot_open(kind, path, errno);
  require_regular(kind, path, info);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw_cannot_open(kind, path, errno);
  if (::fstat(fd.get(), &info) != 0) throw_cannot_open(kind, path, errno);
  require_regular(kind, path, info);
  std::string doing = str(kind.reader, ": opening '", path, "'");
  DataFile result;
  result.file = timed_file(check(arrow::io::ReadableFile::Open(fd.get()), doing));
  fd.release();
  result.stamp = {info.st_dev, info.st_ino, info.st_size, modified(info)};
  return result;
}

}  // namespace manta::data
