#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "manta/base/error.h"
#include "manta/io/unique_fd.h"
#include "manta/train/file_internal.h"

namespace manta::train {

void write_all(int fd, const void* data, size_t size, const std::string& path) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t done = ::write(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_errno(str("writing '", path, "'"));
    at += done;
    size -= static_cast<size_t>(done);
  }
}

std::string read_text(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && (errno == ENOENT || errno == ENOTDIR))
    throw Error(ErrorKind::kNotFound, str("'", path, "' does not exist"));
  if (!fd) throw_errno(str("opening '", path, "'"));
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(str("reading '", path, "'"));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

void replace_file(const std::string& path, const std::string& text) {
  std::string fresh = path + ".new";
  try {
    UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!fd) throw_errno(str("creating '", fresh, "'"));
    write_all(fd.get(), text.data(), text.size(), fresh);
    if (::close(fd.release()) != 0) throw_errno(str("closing '", fresh, "'"));
    if (::rename(fresh.c_str(), path.c_str()) != 0)
      throw_errno(str("renaming '", fresh, "' to '", path, "'"));
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
}

std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace manta::train
