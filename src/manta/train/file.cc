#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>

#include "manta/base/error_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

const char* kind_of(mode_t mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void refuse(const std::string& path, mode_t mode, const char* expected) {
  throw Error(ErrorKind::kCorrupt, str("'", path, "' is ", kind_of(mode), "; expected ", expected));
}

// Why openat() did not open it.
[[noreturn]] void fail_to_open(int folder, const std::string& part, const std::string& path,
                               const char* expected) {
  int error = errno;
  struct stat info {};
  bool exists = ::fstatat(folder, part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  // A link gives ELOOP, a socket ENXIO, anything but a folder on the way ENOTDIR.
  if (exists && (error == ELOOP || error == ENXIO || error == ENOTDIR || error == EISDIR))
    refuse(path, info.st_mode, expected);
  if (error == ENOENT || error == ENAMETOOLONG)
    throw Error(ErrorKind::kNotFound, str("'", path, "' does not exist"));
  errno = error;
  throw_file_errno(str("opening '", path, "'"));
}

UniqueFd open_folder(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd && (errno == ENOENT || errno == ENOTDIR))
    throw Error(ErrorKind::kNotFound, str("the folder '", path, "' does not exist"));
  if (!fd) throw_file_errno(str("opening the folder '", path, "'"));
  return fd;
}

mode_t mode_of(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_file_errno(str("looking at '", path, "'"));
  return info.st_mode & 0777;
}

std::string folder_of(const std::string& path) {
  std::string folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::string name_of(const std::string& path) { return fs::path(path).filename(); }

// Like mkdir: sets errno.
bool make_folder_like_parent(const std::string& path) {
  struct stat above {};
  return ::stat(folder_of(path).c_str(), &above) == 0 &&
         ::mkdir(path.c_str(), above.st_mode & 0777) == 0;
}

}  // namespace

void throw_file_errno(const std::string& what) {
  int error = errno;
  std::string advice;
  if (error == ENOSPC) advice = "; make room on that disk";
  if (error == EDQUOT) advice = "; make room there, or have the quota raised";
  if (error == EROFS) advice = "; mount that file system so that it can be written to";
  if (error == EACCES || error == EPERM)
    advice = str("; user ", ::geteuid(), " needs the right to do so");
  throw Error(ErrorKind::kIo, str(what, ": ", errno_text(error), advice));
}

bool is_damage(const Error& error) {
  return error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kNotFound;
}

void check_relative_path(const std::string& name, const std::string& what) {
  auto refuse_name = [&](const char* why) {
    throw Error(ErrorKind::kInvalidArgument, str("'", name, "' cannot be ", what, ": ", why));
  };
  if (name.find('\0') != std::string::npos) refuse_name("it contains a zero byte");
  for (size_t at = 0; at <= name.size();) {
    size_t end = std::min(name.find('/', at), name.size());
    std::string part = name.substr(at, end - at);
    if (part.empty()) refuse_name("it must be relative and have no empty parts");
    if (part == "." || part == "..") refuse_name("it must have no '.' or '..' between slashes");
    at = end + 1;
  }
}

size_t check_regular(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_file_errno(str("looking at '", path, "'"));
  if (!S_ISREG(info.st_mode)) refuse(path, info.st_mode, "a file");
  return static_cast<size_t>(info.st_size);
}

void check_single_name(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_file_errno(str("looking at '", path, "'"));
  if (info.st_nlink > 1)
    throw Error(ErrorKind::kCorrupt,
                str("'", path,
                    "' has another name (a hard link), which appending to it would change, too; "
                    "copy the run folder and take the copy"));
}

UniqueFd open_file(const std::string& folder, const std::string& name, int flags) {
  UniqueFd at = open_folder(folder);
  std::string path = folder;
  size_t begin = 0;
  for (size_t end; (end = name.find('/', begin)) != std::string::npos; begin = end + 1) {
    std::string part = name.substr(begin, end - begin);
    path += "/" + part;
    UniqueFd next(
        ::openat(at.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) fail_to_open(at.get(), part, path, "a folder");
    at = std::move(next);
  }
  std::string last = name.substr(begin);
  path += "/" + last;
  mode_t mode = flags & O_CREAT ? mode_of(at.get(), path) & 0666 : 0;
  // O_NONBLOCK: opening a pipe would wait for its other end.
  UniqueFd fd(::openat(at.get(), last.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode));
  if (!fd) fail_to_open(at.get(), last, path, "a file");
  check_regular(fd.get(), path);
  return fd;
}

bool has_folder(const std::string& folder, const std::string& name) {
  struct stat info {};
  std::string path = folder + "/" + name;
  if (::lstat(path.c_str(), &info) == 0) return S_ISDIR(info.st_mode);
  if (errno != ENOENT && errno != ENOTDIR) throw_file_errno(str("looking at '", path, "'"));
  return false;
}

void make_folder_anew(const std::string& path) {
  if (!make_folder_like_parent(path)) throw_file_errno(str("creating the folder '", path, "'"));
}

void make_folders(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return;
  std::string above = folder_of(path);
  if (above != path) make_folders(above);
  if (make_folder_like_parent(path)) return;
  int error = errno;
  // Another rank may have been faster.
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return;
  errno = error;
  throw_file_errno(str("creating the folder '", path, "'"));
}

void make_folders_to(const std::string& folder, const std::string& name) {
  make_folders(folder);
  make_folders_in(folder, name);
}

void make_folders_in(const std::string& folder, const std::string& name) {
  for (size_t end = 0; (end = name.find('/', end)) != std::string::npos; ++end) {
    std::string inner = name.substr(0, end), path = folder + "/" + inner;
    if (has_folder(folder, inner) || make_folder_like_parent(path)) continue;
    int error = errno;
    struct stat info {};
    if (error == EEXIST && ::lstat(path.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) continue;  // another process was faster
      refuse(path, info.st_mode, "a folder");
    }
    errno = error;
    throw_file_errno(str("creating the folder '", path, "'"));
  }
}

void write_all(int fd, const void* data, size_t size, const std::string& path) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t done = ::write(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_file_errno(str("writing '", path, "'"));
    at += done;
    size -= static_cast<size_t>(done);
  }
}

void close_written(UniqueFd fd, const std::string& path) {
  if (::close(fd.release()) != 0) throw_file_errno(str("closing '", path, "'"));
}

std::string read_text(const std::string& path, size_t most) {
  UniqueFd fd = open_file(folder_of(path), name_of(path), O_RDONLY);
  size_t size = check_regular(fd.get(), path);
  auto refuse_size = [&](size_t bytes) {
    throw Error(ErrorKind::kCorrupt,
                str("'", path, "' has ", bytes, " bytes; at most ", most, " are read"));
  };
  if (size > most) refuse_size(size);
  std::string text;
  try {
    text.resize(size + 1);  // one byte more, to see the end
    for (size_t done = 0;;) {
      ssize_t got = ::read(fd.get(), text.data() + done, text.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_file_errno(str("reading '", path, "'"));
      done += static_cast<size_t>(got);
      if (done > most) refuse_size(done);
      if (got == 0) {
        text.resize(done);
        return text;
      }
      if (done == text.size()) text.resize(2 * done);  // it grows meanwhile
    }
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResources, str("no memory for the ", size, " bytes of '", path, "'"));
  }
}

Json read_json(const std::string& path, const JsonLimits& limits) {
  return parse_json(read_text(path, limits.bytes), str("'", path, "'"), limits);
}

void sync_to_disk(int fd, const std::string& path) {
  if (::fsync(fd) != 0) throw_file_errno(str("writing '", path, "' to the disk (fsync)"));
}

void sync_to_disk(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw_file_errno(str("opening '", path, "' to write it to the disk"));
  sync_to_disk(fd.get(), path);
}

// Syncs a large file part by part, to show progress. On a file system that cannot do that (it
// returns an error), the whole file is synced at the end.
void sync_tree_to_disk(const std::string& folder, const std::function<void()>& on_part) {
  constexpr off_t kPart = 64 << 20;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    UniqueFd fd(::open(it->path().c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) throw_file_errno(str("opening '", it->path().string(), "' to write it to the disk"));
    struct stat info {};
    off_t size = ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;
    constexpr unsigned kWait =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    for (off_t at = 0; at + kPart < size; at += kPart) {
      if (::sync_file_range(fd.get(), at, kPart, kWait) != 0) {
        // A failed write is reported only once: fsync would not report it again.
        if (errno != ENOSYS && errno != EINVAL && errno != ESPIPE && errno != EOPNOTSUPP)
          throw_file_errno(str("writing '", it->path().string(), "' to the disk"));
        break;
      }
      on_part();
    }
    sync_to_disk(fd.get(), it->path());
    on_part();
  }
  if (error)
    throw Error(ErrorKind::kIo, str("reading the folder '", folder, "': ", error.message()));
  sync_to_disk(folder);
}

void replace_file(const std::string& path, const std::string& text, bool durable) {
  std::string fresh = path + ".new";
  // An existing file is left over from a driver that died, or is a link that an attacker has made.
  if (::unlink(fresh.c_str()) != 0 && errno != ENOENT)
    throw_file_errno(str("removing '", fresh, "'"));
  try {
    UniqueFd fd = open_file(folder_of(fresh), name_of(fresh), O_WRONLY | O_CREAT | O_EXCL);
    write_all(fd.get(), text.data(), text.size(), fresh);
    if (durable) sync_to_disk(fd.get(), fresh);
    close_written(std::move(fd), fresh);
    if (::rename(fresh.c_str(), path.c_str()) != 0)
      throw_file_errno(str("renaming '", fresh, "' to '", path, "'"));
    if (durable) sync_to_disk(folder_of(path));
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
}

std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace manta::train
